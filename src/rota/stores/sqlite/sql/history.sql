-- name: history_writer
-- Read the number of the last counts that a process has added. By primary key.
SELECT number FROM rota_history_writer WHERE writer = :writer

-- name: save_history_writer
-- Remember the number of the last counts that a process has added. By primary key.
INSERT OR REPLACE INTO rota_history_writer (writer, number, at) VALUES (:writer, :number, :now)

-- name: history_bucket
-- Read all lanes of a bucket. By primary key.
SELECT at, queue, type, tally FROM rota_history WHERE step = :step AND at = :at

-- name: save_history_bucket
-- Write the counts of a lane in a bucket. By primary key.
INSERT OR REPLACE INTO rota_history (step, at, queue, type, tally) VALUES (:step, :at, :queue, :type, :tally)

-- name: history_by_lane
-- Read the lanes of the buckets of a span, oldest first, without the totals. By primary key.
SELECT at, queue, type, tally FROM rota_history
WHERE step = :step AND at >= :since AND at < :until AND queue <> '' ORDER BY at, queue, type LIMIT :limit

-- name: history_totals
-- Read the totals of the buckets of a span, oldest first. Index: rota_history_total.
SELECT at, queue, type, tally FROM rota_history INDEXED BY rota_history_total
WHERE queue = '' AND step = :step AND at >= :since AND at < :until ORDER BY at LIMIT :limit

-- name: delete_old_history
-- Delete old buckets of one length. By primary key.
DELETE FROM rota_history WHERE (step, at, queue, type) IN (
    SELECT step, at, queue, type FROM rota_history WHERE step = :step AND at < :before ORDER BY at LIMIT :limit
)

-- name: delete_old_history_writers
-- Delete processes that have added nothing for long. Few rows.
DELETE FROM rota_history_writer WHERE at < :before

-- name: save_payload_schema
-- Write the payload schema of a type. By primary key.
INSERT OR REPLACE INTO rota_payload_schema (type, body, at) VALUES (:type, :body, :now)

-- name: payload_schema
-- Read the payload schema of a type. By primary key.
SELECT body, at FROM rota_payload_schema WHERE type = :type

-- name: delete_old_payload_schemas
-- Delete the payload schemas of types that no worker has registered for long. Few rows.
DELETE FROM rota_payload_schema WHERE at < :before
