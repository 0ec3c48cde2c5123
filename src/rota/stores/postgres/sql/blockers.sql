-- Give the jobs that a job still waits for. By dependency_child.
SELECT parent FROM dependency WHERE child = $1::bigint AND NOT met ORDER BY parent LIMIT $2::bigint
