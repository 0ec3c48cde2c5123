-- Delete what belongs to pruned jobs. Served by idempotency_job.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE idempotency
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN idempotency FORCE INDEX (idempotency_job) ON idempotency.job_id = pruned_job.id
