-- Let an idempotency key stand for a job.
INSERT OR REPLACE INTO idempotency (scope, key, request, job_id, expires_at) VALUES (?, ?, ?, ?, ?)
