-- name: is_running_under_fence
-- Check that a job still runs under a fence. By primary key.
SELECT 1 FROM rota_job WHERE id = ? AND fence = ? AND state = 'running'

-- name: is_running
-- Check whether a job runs. By primary key.
SELECT 1 FROM rota_job WHERE id = ? AND state = 'running'

-- name: insert_step
-- Record the intent to perform a step, once. Steps are numbered, because clocks may stand still or go back.
INSERT OR IGNORE INTO rota_step (job_id, key, number, began_under, began_at)
SELECT :job_id, :key, 1 + coalesce(max(number), 0), :fence, :now FROM rota_step WHERE job_id = :job_id

-- name: finish_step
-- Record the outcome of a step; the first outcome is kept. By primary key.
UPDATE rota_step SET ended_at = ?, outcome = ? WHERE job_id = ? AND key = ? AND ended_at IS NULL

-- name: delete_unfinished_step
-- Delete the intent to perform a step that has no outcome. By primary key.
DELETE FROM rota_step WHERE job_id = ? AND key = ? AND ended_at IS NULL

-- name: step_by_key
-- Select one step. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome FROM rota_step WHERE job_id = ? AND key = ?

-- name: steps_of_job
-- Select the steps of a job in the order in which they began. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome FROM rota_step WHERE job_id = ? ORDER BY number
