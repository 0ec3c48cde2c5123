-- Give the waits for jobs that have ended. By primary key of dependency.
SELECT parent, child, need
FROM dependency
WHERE parent IN (SELECT value FROM json_each(?)) AND met = 0
ORDER BY parent, child
