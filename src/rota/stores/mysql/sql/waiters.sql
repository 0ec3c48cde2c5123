-- Give the waits for jobs that have ended. By primary key of dependency.
SELECT parent, child, need
FROM dependency FORCE INDEX (PRIMARY)
WHERE parent IN %(ids)s AND met = 0
ORDER BY parent, child
