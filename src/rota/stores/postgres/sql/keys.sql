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

-- name: lock_unique_keys
-- Lock keys of unique, throttled and debounced jobs until the transaction ends; those that do not exist are inserted
-- without a job. By primary key.
INSERT INTO {schema}rota_idempotency AS idempotency (scope, key, request, job_id, expires_at)
SELECT wanted.scope, wanted.key, ''::bytea, 0, 0 FROM unnest($1::text[], $2::text[]) AS wanted (scope, key)
ON CONFLICT (scope, key) DO UPDATE SET job_id = idempotency.job_id
RETURNING 1

-- name: key_holder
-- The job that took a key last. By primary keys, of rota_job and of one partition of rota_job_done.
SELECT any_job.id, any_job.state, any_job.fence, any_job.created_at
FROM {schema}rota_idempotency AS idempotency
JOIN {schema}rota_any_job AS any_job ON any_job.id = idempotency.job_id
WHERE idempotency.scope = $1::text AND idempotency.key = $2::text

-- name: take_unique_key
-- Give a locked key to a new job. By primary key.
UPDATE {schema}rota_idempotency SET job_id = $3::bigint, expires_at = $4::bigint
WHERE scope = $1::text AND key = $2::text

-- name: replace_debounced
-- Give a job that no worker has taken yet the payload of a later submission; one that is not due waits anew. By primary
-- key.
UPDATE {schema}rota_job
SET payload = $2::text,
    updated_at = $6::bigint,
    run_at = CASE WHEN state = 'scheduled' THEN $3::bigint ELSE run_at END,
    turn = CASE WHEN state = 'scheduled' THEN $3::bigint - priority * $5::bigint ELSE turn END,
    expires_at = CASE WHEN state = 'scheduled' THEN $4::bigint ELSE expires_at END
WHERE id = $1::bigint AND state IN ('scheduled', 'pending', 'queued') AND fence = 0
