-- name: find_key
-- Look up an idempotency key: its request hash, its job, and whether the key may be used again. By primary key.
SELECT request, job_id, expires_at <= :now AND NOT EXISTS (
    SELECT 1 FROM rota_job WHERE rota_job.id = rota_idempotency.job_id AND finished_at IS NULL
)
FROM rota_idempotency WHERE scope = :scope AND key = :key

-- name: save_key
-- Bind an idempotency key to a job.
INSERT OR REPLACE INTO rota_idempotency (scope, key, request, job_id, expires_at) VALUES (?, ?, ?, ?, ?)
