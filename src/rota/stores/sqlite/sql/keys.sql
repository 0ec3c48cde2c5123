-- name: find_key
-- Look up an idempotency key: its request hash, its job, and whether the key may be used again. By primary key.
SELECT request, job_id, expires_at <= :now AND NOT EXISTS (
    SELECT 1 FROM rota_job WHERE rota_job.id = rota_idempotency.job_id AND finished_at IS NULL
)
FROM rota_idempotency WHERE scope = :scope AND key = :key

-- name: save_key
-- Bind an idempotency key to a job.
INSERT OR REPLACE INTO rota_idempotency (scope, key, request, job_id, expires_at) VALUES (?, ?, ?, ?, ?)

-- name: key_holder
-- The job that took a key of unique, throttled or debounced jobs last. By primary keys.
SELECT job.id, job.state, job.fence, job.created_at, job.priority
FROM rota_idempotency AS idempotency JOIN rota_job AS job ON job.id = idempotency.job_id
WHERE idempotency.scope = ? AND idempotency.key = ?

-- name: replace_payload
-- Give a waiting job the payload of a later submission. By primary key.
UPDATE rota_job SET payload = ?, updated_at = ? WHERE id = ?

-- name: replace_times
-- Let a scheduled job wait anew. By primary key.
UPDATE rota_job SET run_at = ?, turn = ?, expires_at = ? WHERE id = ?
