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

-- name: mark_dependencies_met
-- Mark dependencies as met: parent and child of each. By primary key. The row of VALUES is repeated.
UPDATE rota_dependency SET met = 1
FROM (VALUES (?, ?)) AS wait
WHERE rota_dependency.parent = wait.column1 AND rota_dependency.child = wait.column2

-- name: unblock_jobs
-- Count some blockers less: job and number of each. After the last one a job is due now or at its own time, whichever is
-- later. By primary key. The row of VALUES is repeated.
UPDATE rota_job
SET blockers = blockers - wait.column2,
    state = CASE WHEN blockers > wait.column2 THEN 'blocked' WHEN run_at > ? THEN 'scheduled' ELSE 'pending' END,
    turn = CASE WHEN blockers > wait.column2 THEN turn ELSE max(run_at, ?) - priority * ? END,
    run_at = CASE WHEN blockers > wait.column2 THEN run_at ELSE max(run_at, ?) END,
    updated_at = ?
FROM (VALUES (?, ?)) AS wait
WHERE rota_job.id = wait.column1 AND rota_job.state = 'blocked'

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
