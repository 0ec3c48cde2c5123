-- Give finished jobs past their time that nobody needs any more. Served by job_finished.
SELECT id
FROM job
WHERE finished_at IS NOT NULL AND state = :state AND finished_at <= :before
    AND NOT EXISTS (
        SELECT 1 FROM dependency JOIN job AS child ON child.id = dependency.child
        WHERE dependency.parent = job.id AND child.finished_at IS NULL
    )
    AND (idempotency_key IS NULL OR NOT EXISTS (
        SELECT 1 FROM idempotency WHERE idempotency.job_id = job.id AND expires_at > :now
    ))
ORDER BY finished_at
LIMIT :limit
