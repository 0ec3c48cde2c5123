-- Delete finished jobs. The state is asked again: nothing unfinished is ever deleted. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE job
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = pruned_job.id
WHERE job.finished_at IS NOT NULL
