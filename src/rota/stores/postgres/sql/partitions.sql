-- Daily partitions of finished jobs; see partitions.py.

-- name: day_partitions
-- The names of the daily partitions, the oldest first.
SELECT part.relname
FROM pg_inherits JOIN pg_class AS part ON part.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = '{schema}rota_job_done'::regclass AND part.relname ~ '^rota_job_done_\d{8}$'
ORDER BY part.relname

-- name: default_partition_between
-- Whether the default partition holds ids of a range. By primary key.
SELECT id FROM {schema}rota_job_done_rest WHERE id >= $1::bigint AND id < $2::bigint LIMIT 1

-- name: has_many_between
-- Whether at least a number of finished jobs have ids in a range. By primary key.
SELECT id FROM {schema}rota_job_done WHERE id >= $1::bigint AND id < $2::bigint ORDER BY id OFFSET $3::bigint LIMIT 1

-- name: kept_between
-- Finished jobs with ids in a range that must be kept: within the retention of their state, parent of an unfinished
-- job, or with a key that still counts. Reads the whole range.
SELECT job_done.id
FROM {schema}rota_job_done AS job_done
LEFT JOIN unnest($4::text[], $5::bigint[]) AS kept (state, past) ON kept.state = job_done.state
WHERE job_done.id >= $2::bigint AND job_done.id < $3::bigint AND (
    kept.past IS NULL OR job_done.finished_at > kept.past
    OR EXISTS (
        SELECT 1 FROM {schema}rota_dependency AS dependency
        JOIN {schema}rota_job AS child ON child.id = dependency.child
        WHERE dependency.parent = job_done.id
    )
    OR (job_done.idempotency_key IS NOT NULL OR strpos(coalesce(job_done.meta, ''), '"rota.unique"') > 0) AND EXISTS (
        SELECT 1 FROM {schema}rota_idempotency AS idempotency
        WHERE idempotency.job_id = job_done.id AND idempotency.expires_at > $1::bigint
    )
)
LIMIT $6::bigint

-- name: count_between
-- Count the finished jobs with ids in a range, by state, except some. Reads the whole range.
SELECT state, count(*)
FROM {schema}rota_job_done
WHERE id >= $1::bigint AND id < $2::bigint AND id <> ALL($3::bigint[])
GROUP BY state

-- name: delete_attempts_between
-- Delete the attempts of a dropped day's jobs, except of jobs that are kept or unfinished.
DELETE FROM {schema}rota_attempt AS attempt
WHERE job_id >= $1::bigint AND job_id < $2::bigint AND job_id <> ALL($3::bigint[])
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = attempt.job_id)

-- name: delete_steps_between
-- Delete the steps of a dropped day's jobs, except of jobs that are kept or unfinished.
DELETE FROM {schema}rota_step AS step
WHERE job_id >= $1::bigint AND job_id < $2::bigint AND job_id <> ALL($3::bigint[])
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = step.job_id)

-- name: delete_waiters_between
-- Delete the waits of a dropped day's jobs, except of jobs that are kept or unfinished.
DELETE FROM {schema}rota_waiter AS waiter
WHERE job_id >= $1::bigint AND job_id < $2::bigint AND job_id <> ALL($3::bigint[])
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = waiter.job_id)

-- name: delete_tags_between
-- Delete the tags of a dropped day's jobs, except of jobs that are kept or unfinished.
DELETE FROM {schema}rota_tag AS tag
WHERE job_id >= $1::bigint AND job_id < $2::bigint AND job_id <> ALL($3::bigint[])
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = tag.job_id)

-- name: delete_keys_between
-- Delete the idempotency keys of a dropped day's jobs, except of jobs that are kept or unfinished.
DELETE FROM {schema}rota_idempotency AS idempotency
WHERE job_id >= $1::bigint AND job_id < $2::bigint AND job_id <> ALL($3::bigint[])
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = idempotency.job_id)

-- name: delete_dependencies_between
-- Delete the dependencies of and on a dropped day's jobs, except of jobs that are kept or unfinished.
DELETE FROM {schema}rota_dependency AS dependency
WHERE (
        child >= $1::bigint AND child < $2::bigint AND child <> ALL($3::bigint[])
        AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = dependency.child)
    )
    OR (
        parent >= $1::bigint AND parent < $2::bigint AND parent <> ALL($3::bigint[])
        AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = dependency.parent)
    )

-- name: add_partition
-- Add the partition of a day with its range of ids.
SELECT {schema}rota_add_partition($1::text, $2::bigint, $3::bigint)

-- name: lock_partition
-- Let nothing change in the partition of a day until the end of the transaction.
SELECT {schema}rota_lock_partition($1::text)

-- name: drop_partition
-- Drop the partition of a day; the jobs named move to the default partition.
SELECT {schema}rota_drop_partition($1::text, $2::bigint[])
