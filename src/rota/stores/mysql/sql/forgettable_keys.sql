-- Give keys that have been kept for their time and whose job is gone. Served by idempotency_expiry.
SELECT scope, `key` FROM idempotency FORCE INDEX (idempotency_expiry)
WHERE expires_at <= %(before)s AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = idempotency.job_id)
ORDER BY expires_at LIMIT %(limit)s
