-- Settings of queues, and their depth.

-- name: create_queue
-- Store the settings of a queue that has none yet.
INSERT INTO {schema}rota_queue (name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version)
VALUES ($1::text, $2::bigint, $3::text, $4::bigint, $5::bigint, $6::bigint, $7::text, $8::bigint + 1)
ON CONFLICT DO NOTHING

-- name: replace_queue
-- Replace a queue's settings that still have the version they were read with. By primary key.
UPDATE {schema}rota_queue
SET paused_at = $2::bigint, pause_reason = $3::text, resume_at = $4::bigint, max_depth = $5::bigint,
    max_running = $6::bigint, rate_limit = $7::text, version = version + 1
WHERE name = $1::text AND version = $8::bigint

-- name: queues
-- The queues that have settings. By primary key.
SELECT name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version FROM {schema}rota_queue
ORDER BY name

-- name: queue_bounds
-- Those of some queues that have a maximal depth. By primary key.
SELECT name, max_depth FROM {schema}rota_queue WHERE name = ANY($1::text[]) AND max_depth IS NOT NULL

-- name: queue_depth
-- Count the jobs that wait in a queue for a worker, up to a limit. Served by rota_job_turn and rota_job_queued.
SELECT (
    SELECT count(*)
    FROM (SELECT 1 FROM {schema}rota_job WHERE state = 'pending' AND queue = $1::text LIMIT $2::bigint) AS pending
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
