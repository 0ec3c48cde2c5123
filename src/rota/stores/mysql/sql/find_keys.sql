-- Find what idempotency keys stand for, and keep them as they are until we are done. By primary key.
SELECT scope, `key`, request, job_id, expires_at FROM idempotency WHERE (scope, `key`) IN %(keys)s FOR UPDATE
