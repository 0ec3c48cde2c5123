-- name: insert_dependency
-- Let a job (child) wait for another (parent).
INSERT INTO rota_dependency (parent, child, need, position) VALUES (%s, %s, %s, %s);

-- name: has_dependents
-- Read 1 if any job depends, or depended, on a job in a range of ids. Primary key of rota_dependency.
SELECT 1 FROM rota_dependency FORCE INDEX (PRIMARY) WHERE parent BETWEEN %(first)s AND %(last)s LIMIT 1;

-- name: unmet_dependencies
-- Read the unmet dependencies on some jobs. Primary key.
SELECT parent, child, need
FROM rota_dependency FORCE INDEX (PRIMARY)
WHERE parent IN %(ids)s AND met = 0
ORDER BY parent, child;

-- name: mark_dependencies_met
-- Mark dependencies as met. Primary key.
UPDATE rota_dependency FORCE INDEX (PRIMARY) SET met = 1 WHERE (parent, child) IN %(pairs)s;

-- name: update_blocked_job
-- Write the new state and number of blockers of a locked blocked job. Primary key.
UPDATE rota_job SET state = %s, blockers = %s, turn = %s, run_at = %s, updated_at = %s WHERE id = %s;

-- name: cancel_dependents
-- Cancel locked jobs that will never run, because of a dependency. Primary key.
UPDATE rota_job FORCE INDEX (PRIMARY)
SET state = 'cancelled', reason = %(reason)s, finished_at = %(now)s, updated_at = %(now)s, room = NULL
WHERE id IN %(ids)s;

-- name: blockers
-- Read the jobs that a job still waits for. Served by rota_dependency_child.
SELECT parent FROM rota_dependency WHERE child = %(child)s AND met = 0 ORDER BY parent LIMIT %(limit)s;

-- name: dependencies_of_children
-- Read the dependencies of some jobs, each job's in the order in which it named them, without its calls. Served by
-- rota_dependency_child.
SELECT parent, child, need, met
FROM rota_dependency FORCE INDEX (rota_dependency_child)
WHERE child IN %(keys)s AND position >= 0
ORDER BY child, position, parent;

-- name: dependencies_on_parents
-- Read the dependencies on some jobs. Primary key.
SELECT parent, child, need, met
FROM rota_dependency FORCE INDEX (PRIMARY)
WHERE parent IN %(keys)s
ORDER BY parent, child;
