-- Let an idempotency key stand for a job. Taken by another at this moment, it is refused.
INSERT INTO idempotency (scope, `key`, request, job_id, expires_at) VALUES (%s, %s, %s, %s, %s)
