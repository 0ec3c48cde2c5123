-- Of some finished jobs that we keep locked, give those that nobody needs any more. By primary key.
SELECT job.id
FROM job
WHERE job.id IN %(ids)s AND job.finished_at IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM dependency JOIN job AS child ON child.id = dependency.child
        WHERE dependency.parent = job.id AND child.finished_at IS NULL
    )
    AND (job.idempotency_key IS NULL OR NOT EXISTS (
        SELECT 1 FROM idempotency WHERE idempotency.job_id = job.id AND idempotency.expires_at > %(now)s
    ))
ORDER BY job.id
