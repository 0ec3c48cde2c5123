-- Steps of jobs.

-- name: lock_lease_with_fence
-- Whether a job still runs under a fence; locks its row. By primary key.
SELECT 1
FROM {schema}rota_job
WHERE id = :job_id::bigint AND fence = :fence::bigint AND lease_until IS NOT NULL
FOR NO KEY UPDATE

-- name: is_running
-- Whether a job runs. By primary key.
SELECT 1 FROM {schema}rota_job WHERE id = :job_id::bigint AND lease_until IS NOT NULL

-- name: intend_step
-- Record the intent to perform a step, once, unless the job has too many. Steps of a job are numbered, since a clock may
-- stand still or go back.
INSERT INTO {schema}rota_step (job_id, key, number, began_under, began_at)
SELECT :job_id::bigint, :key::text, 1 + coalesce(max(number), 0), :fence::bigint, :now::bigint FROM {schema}rota_step
WHERE job_id = :job_id::bigint
HAVING count(*) < :most::bigint
ON CONFLICT DO NOTHING

-- name: conclude_step
-- Record that a step's effect happened; the first outcome stays. By primary key.
UPDATE {schema}rota_step SET ended_at = :now::bigint, outcome = :outcome::text
WHERE job_id = :job_id::bigint AND key = :key::text AND ended_at IS NULL

-- name: resolve_step
-- Record the outcome of an effect in doubt, as an operator decides. By primary key.
UPDATE {schema}rota_step SET ended_at = :now::bigint, outcome = :outcome::text
WHERE job_id = :job_id::bigint AND key = :key::text AND ended_at IS NULL AND kind = 'effect'

-- name: withdraw_step
-- Delete the intent to perform an effect. By primary key.
DELETE FROM {schema}rota_step
WHERE job_id = :job_id::bigint AND key = :key::text AND ended_at IS NULL AND kind = 'effect'

-- name: step
-- One step. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome, kind, until, subject FROM {schema}rota_step
WHERE job_id = :job_id::bigint AND key = :key::text

-- name: steps
-- A job's steps in the order in which they began. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome, kind, until, subject FROM {schema}rota_step
WHERE job_id = :job_id::bigint
ORDER BY number
