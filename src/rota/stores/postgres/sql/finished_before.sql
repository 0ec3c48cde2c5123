-- Give finished jobs past their time that nobody needs any more, and hold them. Served by job_done_finished.
SELECT job_done.id
FROM job_done
WHERE job_done.state = $2::text AND job_done.finished_at <= $3::bigint
    AND NOT EXISTS (
        SELECT 1 FROM dependency JOIN job AS child ON child.id = dependency.child
        WHERE dependency.parent = job_done.id
    )
    AND (job_done.idempotency_key IS NULL OR NOT EXISTS (
        SELECT 1 FROM idempotency WHERE idempotency.job_id = job_done.id AND idempotency.expires_at > $1::bigint
    ))
ORDER BY job_done.finished_at, job_done.id
LIMIT $4::bigint
FOR UPDATE SKIP LOCKED
