-- name: lock_history
-- Let one transaction add to the history at a time, by the row of the empty name. Primary key.
INSERT INTO rota_history_writer (writer, number, at) VALUES ('', 0, %(now)s) ON DUPLICATE KEY UPDATE at = VALUES(at);

-- name: history_writer
-- Read the number of the last counts that a process has added. Primary key.
SELECT number FROM rota_history_writer WHERE writer = %(writer)s FOR UPDATE;

-- name: save_history_writer
-- Remember the number of the last counts that a process has added. Primary key.
REPLACE INTO rota_history_writer (writer, number, at) VALUES (%(writer)s, %(number)s, %(now)s);

-- name: history_bucket
-- Read all lanes of a bucket as last committed. Primary key.
SELECT at, queue, type, tally FROM rota_history FORCE INDEX (PRIMARY)
WHERE step = %(step)s AND at = %(at)s FOR UPDATE;

-- name: save_history_bucket
-- Write the counts of a lane in a bucket. Primary key.
REPLACE INTO rota_history (step, at, queue, type, tally) VALUES (%(step)s, %(at)s, %(queue)s, %(type)s, %(tally)s);

-- name: history_by_lane
-- Read the lanes of the buckets of a span, oldest first, without the totals. Primary key.
SELECT at, queue, type, tally FROM rota_history FORCE INDEX (PRIMARY)
WHERE step = %(step)s AND at >= %(since)s AND at < %(until)s AND queue <> ''
ORDER BY at, queue, type LIMIT %(limit)s;

-- name: history_totals
-- Read the totals of the buckets of a span, oldest first. Served by rota_history_total.
SELECT at, queue, type, tally FROM rota_history FORCE INDEX (rota_history_total)
WHERE step = %(step)s AND queue = '' AND at >= %(since)s AND at < %(until)s ORDER BY at LIMIT %(limit)s;

-- name: delete_old_history
-- Delete old buckets of one length. Primary key.
DELETE FROM rota_history WHERE step = %(step)s AND at < %(before)s ORDER BY at LIMIT %(limit)s;

-- name: delete_old_history_writers
-- Delete processes that have added nothing for long. Few rows.
DELETE FROM rota_history_writer WHERE at < %(before)s AND writer <> '';

-- name: save_payload_schema
-- Write the payload schema of a type. Primary key.
INSERT INTO rota_payload_schema (type, body, at) VALUES (%(type)s, %(body)s, %(now)s)
ON DUPLICATE KEY UPDATE body = VALUES(body), at = VALUES(at);

-- name: payload_schema
-- Read the payload schema of a type. Primary key.
SELECT body, at FROM rota_payload_schema WHERE type = %(type)s;

-- name: delete_old_payload_schemas
-- Delete the payload schemas of types that no worker has registered for long. Few rows.
DELETE FROM rota_payload_schema WHERE at < %(before)s;
