-- Delete the waits for pruned jobs. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE dependency
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN dependency FORCE INDEX (PRIMARY) ON dependency.parent = pruned_job.id
