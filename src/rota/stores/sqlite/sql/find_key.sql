-- Find what an idempotency key stands for, and whether it may be taken anew. By primary key.
SELECT request, job_id, expires_at <= :now AND NOT EXISTS (
    SELECT 1 FROM job WHERE job.id = idempotency.job_id AND finished_at IS NULL
)
FROM idempotency WHERE scope = :scope AND key = :key
