-- name: queues
-- Read the settings of all queues. Primary key.
SELECT name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version
FROM rota_queue ORDER BY name;

-- name: create_queue
-- Insert the settings of a queue. Fails on a duplicate.
INSERT INTO rota_queue (name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version)
VALUES (
    %(name)s, %(paused_at)s, %(pause_reason)s, %(resume_at)s, %(max_depth)s, %(max_running)s, %(rate_limit)s, 1
);

-- name: replace_queue
-- Replace the settings of a queue that are still at the version they were read at. Primary key.
UPDATE rota_queue
SET paused_at = %(paused_at)s, pause_reason = %(pause_reason)s, resume_at = %(resume_at)s, max_depth = %(max_depth)s,
    max_running = %(max_running)s, rate_limit = %(rate_limit)s, version = version + 1
WHERE name = %(name)s AND version = %(version)s;

-- name: paused_queues
-- Read the queues that are paused now. Few rows.
SELECT name FROM rota_queue WHERE paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s);

-- name: queue_bounds
-- Read the queues with a maximum depth. Few rows.
SELECT name, max_depth FROM rota_queue WHERE max_depth IS NOT NULL;

-- name: queue_depth
-- Count the jobs that wait in a queue, up to a limit. Primary key of rota_ready.
SELECT (SELECT count(*) FROM (SELECT 1 FROM rota_ready WHERE queue = %(queue)s LIMIT %(limit)s) AS pending)
    + (SELECT count(*) FROM rota_held WHERE state = 'queued' AND queue = %(queue)s);

-- name: lock_queue
-- Lock a bounded queue until the transaction ends: only one transaction at a time may count its jobs and add some.
-- Primary key.
INSERT INTO rota_queue_lock (queue) VALUES (%s) ON DUPLICATE KEY UPDATE rota_queue_lock.queue = VALUES(queue);
