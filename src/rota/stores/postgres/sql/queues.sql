-- Settings of queues, and their depth.

-- name: create_queue
-- Store the settings of a queue that has none yet.
INSERT INTO {schema}rota_queue (name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version)
VALUES (:name::text, :paused_at::bigint, :pause_reason::text, :resume_at::bigint, :max_depth::bigint, :max_running::bigint, :rate_limit::text, :version::bigint + 1)
ON CONFLICT DO NOTHING

-- name: replace_queue
-- Replace a queue's settings that still have the version they were read with. By primary key.
UPDATE {schema}rota_queue
SET paused_at = :paused_at::bigint, pause_reason = :pause_reason::text, resume_at = :resume_at::bigint, max_depth = :max_depth::bigint,
    max_running = :max_running::bigint, rate_limit = :rate_limit::text, version = version + 1
WHERE name = :name::text AND version = :version::bigint

-- name: queues
-- The queues that have settings.
SELECT name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version FROM {schema}rota_queue
ORDER BY name

-- name: queue_bounds
-- Those of some queues that have a maximal depth. By primary key.
SELECT name, max_depth FROM {schema}rota_queue WHERE name = ANY($1::text[]) AND max_depth IS NOT NULL

-- name: queue_depth
-- Count the jobs that wait in a queue for a worker, up to a limit. Served by rota_job_turn, rota_job_key and
-- rota_job_queued.
SELECT (
    SELECT count(*)
    FROM (
        SELECT 1 FROM {schema}rota_job
        WHERE state = 'pending' AND concurrency_key IS NULL AND queue = $1::text
        LIMIT $2::bigint
    ) AS pending
) + (
    SELECT count(*)
    FROM (
        SELECT 1 FROM {schema}rota_job
        WHERE state = 'pending' AND concurrency_key IS NOT NULL AND queue = $1::text
        LIMIT $2::bigint
    ) AS keyed
) + (
    SELECT count(*)
    FROM (SELECT 1 FROM {schema}rota_job WHERE state = 'queued' AND queue = $1::text LIMIT $2::bigint) AS queued
)

-- name: lock_queues
-- Take the advisory locks of queues with a maximal depth, so that one transaction at a time counts and fills them. In
-- the order of the lock numbers, against deadlocks.
SELECT pg_advisory_xact_lock(gate.number)
FROM (
    SELECT DISTINCT hashtextextended(queue, 0) AS number FROM unnest($1::text[]) AS bounded (queue) ORDER BY number
) AS gate
