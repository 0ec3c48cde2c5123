-- Give the jobs that a job still waits for. By dependency_child.
SELECT parent FROM dependency WHERE child = %(child)s AND met = 0 ORDER BY parent LIMIT %(limit)s
