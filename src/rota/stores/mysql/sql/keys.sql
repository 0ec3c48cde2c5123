-- name: existing_keys
-- Of some idempotency keys, read those that exist, without a lock. Primary key.
SELECT scope, `key` FROM rota_idempotency WHERE (scope, `key`) IN %(keys)s;

-- name: lock_keys
-- Read and lock idempotency keys. Primary key.
SELECT scope, `key`, request, job_id, expires_at FROM rota_idempotency WHERE (scope, `key`) IN %(keys)s FOR UPDATE;

-- name: insert_key
-- Insert an idempotency key for a job. Fails on a duplicate if another submitter inserted it at the same time.
INSERT INTO rota_idempotency (scope, `key`, request, job_id, expires_at) VALUES (%s, %s, %s, %s, %s);

-- name: replace_key
-- Give an idempotency key whose time is over to another job. Primary key.
UPDATE rota_idempotency SET request = %s, job_id = %s, expires_at = %s WHERE scope = %s AND `key` = %s;
