-- Delete the waits of pruned jobs. Served by dependency_child.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE dependency
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN dependency FORCE INDEX (dependency_child) ON dependency.child = pruned_job.id
