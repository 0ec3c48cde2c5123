-- Counts of jobs by minute and hour.

-- name: lock_history
-- Let one transaction add to the history at a time, by the row of the empty name. By primary key.
INSERT INTO {schema}rota_history_writer (writer, number, at) VALUES ('', 0, :now::bigint)
ON CONFLICT (writer) DO UPDATE SET at = excluded.at

-- name: history_writer
-- The number of the last counts that a process has added. By primary key.
SELECT number FROM {schema}rota_history_writer WHERE writer = :writer::text

-- name: save_history_writer
-- Remember the number of the last counts that a process has added. By primary key.
INSERT INTO {schema}rota_history_writer (writer, number, at) VALUES (:writer::text, :number::bigint, :now::bigint)
ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at

-- name: history_bucket
-- All lanes of a bucket. By primary key.
SELECT at, queue, type, tally FROM {schema}rota_history WHERE step = :step::integer AND at = :at::bigint

-- name: save_history_bucket
-- Write the counts of lanes in a bucket. By primary key.
INSERT INTO {schema}rota_history (step, at, queue, type, tally)
SELECT :step::integer, :at::bigint, lane.queue, lane.type, lane.tally
FROM unnest(:queue::text[], :type::text[], :tally::text[]) AS lane (queue, type, tally)
ON CONFLICT (step, at, queue, type) DO UPDATE SET tally = excluded.tally

-- name: history_by_lane
-- The lanes of the buckets of a span, oldest first, without the totals. By primary key.
SELECT at, queue, type, tally FROM {schema}rota_history
WHERE step = :step::integer AND at >= :since::bigint AND at < :until::bigint AND queue <> ''
ORDER BY at, queue, type LIMIT :limit::bigint

-- name: history_totals
-- The totals of the buckets of a span, oldest first. Served by rota_history_total.
SELECT at, queue, type, tally FROM {schema}rota_history
WHERE queue = '' AND step = :step::integer AND at >= :since::bigint AND at < :until::bigint ORDER BY at LIMIT :limit::bigint

-- name: delete_old_history
-- Delete old buckets of one length. By primary key.
DELETE FROM {schema}rota_history WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}rota_history
    WHERE step = :step::integer AND at < :before::bigint
    ORDER BY at
    LIMIT :limit::bigint
    FOR UPDATE SKIP LOCKED
))

-- name: delete_old_history_writers
-- Delete processes that have added nothing for long. Few rows.
DELETE FROM {schema}rota_history_writer WHERE at < :before::bigint AND writer <> ''

-- name: save_payload_schema
-- Write the payload schemas of types, in the order of the types, so that two writers cannot deadlock. By primary key.
INSERT INTO {schema}rota_payload_schema (type, body, at)
SELECT one.type, one.body, :now::bigint
FROM unnest(:type::text[], :body::text[]) AS one (type, body)
ON CONFLICT (type) DO UPDATE SET body = excluded.body, at = excluded.at

-- name: payload_schema
-- The payload schema of a type. By primary key.
SELECT body, at FROM {schema}rota_payload_schema WHERE type = :type::text

-- name: delete_old_payload_schemas
-- Delete the payload schemas of types that no worker has registered for long. Few rows.
DELETE FROM {schema}rota_payload_schema WHERE at < :before::bigint
