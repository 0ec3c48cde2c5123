-- Delete what belongs to pruned jobs. Served by tag_job.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE tag
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN tag FORCE INDEX (tag_job) ON tag.job_id = pruned_job.id
