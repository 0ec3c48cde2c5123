-- Checks of `rota db check`, and of a caller's connection.

-- name: check_settings
-- Server settings without which a commit does not survive a crash.
SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name

-- name: table_sizes
-- Sizes of our tables and estimates of their rows, of partitions under the name of their table. Served by the catalogue.
SELECT named.name, sum(named.row_count)::bigint, sum(named.size)::bigint
FROM (
    SELECT
        coalesce(parent.relname, part.relname)::text AS name,
        greatest(part.reltuples, 0)::bigint AS row_count,
        pg_total_relation_size(part.oid) AS size
    FROM pg_class AS part
        LEFT JOIN pg_inherits ON pg_inherits.inhrelid = part.oid
        LEFT JOIN pg_class AS parent ON parent.oid = pg_inherits.inhparent
    WHERE part.relkind IN ('r', 'p')
        AND part.relname LIKE 'rota\_%'
        AND part.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{schema}rota_job'::regclass)
) AS named
GROUP BY named.name
ORDER BY 3 DESC, 1

-- name: check_indexes
-- Indexes of our tables that are not valid.
SELECT index.relname
FROM pg_index JOIN pg_class AS index ON index.oid = pg_index.indexrelid
WHERE pg_index.indrelid = ANY(ARRAY[
        '{schema}rota_job', '{schema}rota_job_done', '{schema}rota_dependency', '{schema}rota_idempotency',
        '{schema}rota_attempt', '{schema}rota_step'
    ]::regclass[])
    AND NOT pg_index.indisvalid
ORDER BY index.relname

-- name: check_duplicates
-- Jobs that are unfinished and finished at once. By primary key.
SELECT job.id::text FROM {schema}rota_job AS job JOIN {schema}rota_job_done AS job_done ON job_done.id = job.id
ORDER BY job.id LIMIT 100

-- name: check_invariants
-- Unfinished jobs that break an invariant.
SELECT id::text
FROM {schema}rota_job
WHERE NOT (
    state IN ('pending', 'running', 'scheduled', 'retrying', 'blocked', 'queued')
    AND finished_at IS NULL
    AND (state <> 'blocked' OR blockers > 0)
    AND attempts BETWEEN 0 AND max_attempts
    AND attempts <= fence
)
ORDER BY id
LIMIT 100

-- name: check_stranded
-- Blocked jobs that depend on nothing unfinished. Served by rota_dependency_child.
SELECT job.id::text
FROM {schema}rota_job AS job
WHERE job.state = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM {schema}rota_dependency AS dependency JOIN {schema}rota_job AS parent ON parent.id = dependency.parent
    WHERE dependency.child = job.id AND NOT dependency.met
)
ORDER BY job.id
LIMIT 100

-- name: installed_migrations
-- The applied migrations, whether all tables that a submission needs are in the schema of the migration table, and the
-- time. By this a caller's connection, whose search_path is its own, is known to lead to the store.
SELECT
    number, name,
    (
        SELECT count(DISTINCT relnamespace) = 1 FROM pg_class
        WHERE oid = ANY(ARRAY[
            '{schema}rota_migration', '{schema}rota_job', '{schema}rota_job_done', '{schema}rota_any_job',
            '{schema}rota_idempotency', '{schema}rota_queue', '{schema}rota_tag', '{schema}rota_dependency'
        ]::regclass[]::oid[])
    ),
    (SELECT {clock})
FROM {schema}rota_migration
