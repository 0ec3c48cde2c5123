-- name: lock_lease_with_fence
-- Check that a job still runs under a fence. By primary key.
SELECT 1 FROM rota_job WHERE id = :job_id AND fence = :fence AND state = 'running'

-- name: is_running
-- Check whether a job runs. By primary key.
SELECT 1 FROM rota_job WHERE id = :job_id AND state = 'running'

-- name: intend_step
-- Record the intent to perform a step, once, unless the job has too many. Steps are numbered, because clocks may stand
-- still or go back.
INSERT OR IGNORE INTO rota_step (job_id, key, number, began_under, began_at)
SELECT :job_id, :key, 1 + last, :fence, :now
FROM (SELECT coalesce(max(number), 0) AS last, count(*) AS total FROM rota_step WHERE job_id = :job_id)
WHERE total < :most

-- name: conclude_step
-- Record the outcome of a step; the first outcome is kept. By primary key.
UPDATE rota_step SET ended_at = :now, outcome = :outcome WHERE job_id = :job_id AND key = :key AND ended_at IS NULL

-- name: resolve_step
-- Record the outcome of an effect in doubt, as an operator decides. By primary key.
UPDATE rota_step SET ended_at = :now, outcome = :outcome WHERE job_id = :job_id AND key = :key AND ended_at IS NULL AND kind = 'effect'

-- name: withdraw_step
-- Delete the intent to perform an effect that has no outcome. By primary key.
DELETE FROM rota_step WHERE job_id = :job_id AND key = :key AND ended_at IS NULL AND kind = 'effect'

-- name: step
-- Select one step. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome, kind, until, subject
FROM rota_step WHERE job_id = :job_id AND key = :key

-- name: steps
-- Select the steps of a job in the order in which they began. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome, kind, until, subject
FROM rota_step WHERE job_id = :job_id ORDER BY number
