-- Of some jobs, give those that are dead or cancelled and that nobody needs any more, and hold them. By primary key.
SELECT job_done.id, job_done.state
FROM unnest($2::bigint[]) AS wanted (id) JOIN job_done ON job_done.id = wanted.id
WHERE job_done.state || '' = ANY(ARRAY['dead', 'cancelled'])
    AND NOT EXISTS (
        SELECT 1 FROM dependency JOIN job AS child ON child.id = dependency.child
        WHERE dependency.parent = job_done.id
    )
    AND (job_done.idempotency_key IS NULL OR NOT EXISTS (
        SELECT 1 FROM idempotency WHERE idempotency.job_id = job_done.id AND idempotency.expires_at > $1::bigint
    ))
ORDER BY job_done.id
FOR UPDATE OF job_done
