-- name: insert_dependency
-- Let a job (child) wait for another (parent).
INSERT OR IGNORE INTO rota_dependency (parent, child, need, position) VALUES (?, ?, ?, ?)

-- name: wait_for_child
-- Let a job wait for a child that it called, until that ends in any way.
INSERT INTO rota_dependency (parent, child, need, position) VALUES (?, ?, 'end', ?)
ON CONFLICT (parent, child) DO UPDATE SET met = 0

-- name: unmet_dependencies_on
-- Select the unmet dependencies on some parents. By primary key.
SELECT parent, child, need
FROM rota_dependency
WHERE parent IN (SELECT value FROM json_each(?)) AND met = 0
ORDER BY parent, child

-- name: mark_dependency_met
-- Mark a dependency as met. By primary key.
UPDATE rota_dependency SET met = 1 WHERE parent = ? AND child = ?

-- name: unblock_job
-- Count one blocker less. After the last one the job is due now or at its own time, whichever is later. By primary key.
UPDATE rota_job
SET blockers = blockers - 1,
    state = CASE WHEN blockers > 1 THEN 'blocked' WHEN run_at > :now THEN 'scheduled' ELSE 'pending' END,
    turn = CASE WHEN blockers > 1 THEN turn ELSE max(run_at, :now) - priority * :aging END,
    run_at = CASE WHEN blockers > 1 THEN run_at ELSE max(run_at, :now) END,
    updated_at = :now
WHERE id = :id AND state = 'blocked'

-- name: cancel_blocked_job
-- Cancel a blocked job whose dependency can no longer be met. By primary key.
UPDATE rota_job SET state = 'cancelled', reason = :reason, finished_at = :now, updated_at = :now
WHERE id = :id AND state = 'blocked'

-- name: blockers
-- Select the jobs that a job still waits for. Index: rota_dependency_child.
SELECT parent FROM rota_dependency WHERE child = :child AND met = 0 ORDER BY parent LIMIT :limit

-- name: dependencies_of_children
-- Select the dependencies of some jobs, each job's in the order in which it named them, without its calls. Index:
-- rota_dependency_child.
SELECT parent, child, need, met
FROM rota_dependency
WHERE child IN (SELECT value FROM json_each(:keys)) AND position >= 0
ORDER BY child, position, parent

-- name: dependencies_on_parents
-- Select the dependencies on some jobs. By primary key.
SELECT parent, child, need, met
FROM rota_dependency
WHERE parent IN (SELECT value FROM json_each(:keys))
ORDER BY parent, child
