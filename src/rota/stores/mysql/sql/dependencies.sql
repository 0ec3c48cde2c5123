-- name: insert_dependency
-- Let a job (child) wait for another (parent).
INSERT INTO rota_dependency (parent, child, need) VALUES (%s, %s, %s);

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
-- Cancel locked jobs whose dependency failed. Primary key.
UPDATE rota_job FORCE INDEX (PRIMARY)
SET state = 'cancelled', reason = 'dependency_failed', finished_at = %(now)s, updated_at = %(now)s, room = NULL
WHERE id IN %(ids)s;

-- name: blockers
-- Read the jobs that a job still waits for. Served by rota_dependency_child.
SELECT parent FROM rota_dependency WHERE child = %(child)s AND met = 0 ORDER BY parent LIMIT %(limit)s;
