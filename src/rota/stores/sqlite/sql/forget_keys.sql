-- Forget keys that have been kept for their time and whose job is gone. Served by idempotency_expiry.
DELETE FROM idempotency WHERE (scope, key) IN (
    SELECT scope, key FROM idempotency
    WHERE expires_at <= :before AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = idempotency.job_id)
    ORDER BY expires_at LIMIT :limit
)
