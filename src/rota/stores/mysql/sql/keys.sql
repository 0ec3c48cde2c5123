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

-- name: key_holders
-- Read the jobs of keys of unique, throttled and debounced jobs. Primary key.
SELECT job.id, IF(lease.id IS NULL, job.state, 'running'), coalesce(lease.fence, job.fence), job.created_at
FROM rota_job AS job LEFT JOIN rota_lease AS lease ON lease.id = job.id WHERE job.id IN %(ids)s;

-- name: lock_key_holders
-- The same as they are now, also where a caller's transaction reads an older snapshot, and share-locked. Without
-- rota_lease, as lock_job_states. Primary key.
SELECT id, state, fence, created_at FROM rota_job WHERE id IN %(ids)s LOCK IN SHARE MODE;

-- name: replace_debounced
-- Give a locked job that waits the payload and the times of a later submission. Primary key.
UPDATE rota_job SET payload = %s, run_at = %s, turn = %s, expires_at = %s, updated_at = %s WHERE id = %s;
