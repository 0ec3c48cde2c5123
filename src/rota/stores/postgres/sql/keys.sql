-- Idempotency keys.

-- name: take_keys
-- Assign idempotency keys to new jobs, and return those that were assigned: keys that were free, or that are past
-- their time with their job ended. Waits for a transaction that takes the same key. By primary key.
INSERT INTO {schema}rota_idempotency AS idempotency (scope, key, request, job_id, expires_at)
SELECT * FROM unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[])
ON CONFLICT (scope, key) DO UPDATE
SET request = excluded.request, job_id = excluded.job_id, expires_at = excluded.expires_at
WHERE idempotency.expires_at <= $1::bigint
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = idempotency.job_id)
RETURNING scope, key

-- name: find_keys
-- The jobs of idempotency keys. By primary key.
SELECT idempotency.scope, idempotency.key, idempotency.request, idempotency.job_id
FROM unnest($1::text[], $2::text[]) AS wanted (scope, key)
JOIN {schema}rota_idempotency AS idempotency ON idempotency.scope = wanted.scope AND idempotency.key = wanted.key
