-- name: create_queue
-- Store the settings of a queue that has none yet.
INSERT OR IGNORE INTO rota_queue ({queue_columns})
VALUES (:name, :paused_at, :pause_reason, :resume_at, :max_depth, :max_running, :rate_limit, 1)

-- name: replace_queue
-- Replace the settings of a queue if they still have the version that was read. By primary key.
UPDATE rota_queue
SET paused_at = :paused_at, pause_reason = :pause_reason, resume_at = :resume_at, max_depth = :max_depth,
    max_running = :max_running, rate_limit = :rate_limit, version = version + 1
WHERE name = :name AND version = :version

-- name: queues
-- Select the queues that have settings. By primary key.
SELECT {queue_columns} FROM rota_queue ORDER BY name

-- name: bounded_queues
-- Select the queues with a limit on waiting jobs.
SELECT name, max_depth FROM rota_queue WHERE max_depth IS NOT NULL

-- name: queue_depth
-- Count the pending and queued jobs of a queue, up to a limit. Indexes: rota_job_turn, rota_job_key and
-- rota_job_held, whose condition is repeated word for word, or SQLite does not use it.
SELECT (
    SELECT count(*)
    FROM (
        SELECT 1 FROM rota_job INDEXED BY rota_job_turn
        WHERE state = 'pending' AND concurrency_key IS NULL AND queue = :queue
        LIMIT :limit
    )
) + (
    SELECT count(*)
    FROM (
        SELECT 1 FROM rota_job INDEXED BY rota_job_key
        WHERE state = 'pending' AND concurrency_key IS NOT NULL AND queue = :queue
        LIMIT :limit
    )
) + (
    SELECT count(*)
    FROM (
        SELECT 1 FROM rota_job INDEXED BY rota_job_held
        WHERE state IN ('blocked', 'queued') AND state = 'queued' AND queue = :queue
        LIMIT :limit
    )
)
