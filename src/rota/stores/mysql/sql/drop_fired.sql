-- Delete what belongs to pruned jobs. Served by fired_job.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE fired
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN fired FORCE INDEX (fired_job) ON fired.job_id = pruned_job.id
