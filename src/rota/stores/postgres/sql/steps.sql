-- Steps of jobs.

-- name: lock_lease
-- Whether a job still runs under a fence; locks its row. By primary key.
SELECT 1
FROM {schema}rota_job
WHERE id = $1::bigint AND fence = $2::bigint AND lease_until IS NOT NULL
FOR NO KEY UPDATE

-- name: is_running
-- Whether a job runs. By primary key.
SELECT 1 FROM {schema}rota_job WHERE id = $1::bigint AND lease_until IS NOT NULL

-- name: intend_step
-- Record the intent to perform a step, once. Steps of a job are numbered, since a clock may stand still or go back.
INSERT INTO {schema}rota_step (job_id, key, number, began_under, began_at)
SELECT $1::bigint, $2::text, 1 + coalesce(max(number), 0), $3::bigint, $4::bigint FROM {schema}rota_step
WHERE job_id = $1::bigint
ON CONFLICT DO NOTHING

-- name: conclude_step
-- Record that a step's effect happened; the first outcome stays. By primary key.
UPDATE {schema}rota_step SET ended_at = $1::bigint, outcome = $2::text
WHERE job_id = $3::bigint AND key = $4::text AND ended_at IS NULL

-- name: withdraw_step
-- Delete the intent to perform a step. By primary key.
DELETE FROM {schema}rota_step WHERE job_id = $1::bigint AND key = $2::text AND ended_at IS NULL

-- name: step
-- One step. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome FROM {schema}rota_step
WHERE job_id = $1::bigint AND key = $2::text

-- name: steps
-- A job's steps in the order in which they began. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome FROM {schema}rota_step WHERE job_id = $1::bigint
ORDER BY number
