-- Delete what belongs to pruned jobs. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE attempt
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN attempt FORCE INDEX (PRIMARY) ON attempt.job_id = pruned_job.id
