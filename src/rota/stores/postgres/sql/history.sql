-- Counts of jobs by minute and hour.

-- name: lock_history
-- Let one transaction add to the history at a time, by the row of the empty name. By primary key.
INSERT INTO {schema}rota_history_writer (writer, number, at) VALUES ('', 0, $1::bigint)
ON CONFLICT (writer) DO UPDATE SET at = excluded.at

-- name: history_writer
-- The number of the last counts that a process has added. By primary key.
SELECT number FROM {schema}rota_history_writer WHERE writer = $1::text

-- name: save_history_writer
-- Remember the number of the last counts that a process has added. By primary key.
INSERT INTO {schema}rota_history_writer (writer, number, at) VALUES ($1::text, $2::bigint, $3::bigint)
ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at

-- name: history_bucket
-- All lanes of a bucket. By primary key.
SELECT at, queue, type, tally FROM {schema}rota_history WHERE step = $1::integer AND at = $2::bigint

-- name: save_history_bucket
-- Write the counts of lanes in a bucket. By primary key.
INSERT INTO {schema}rota_history (step, at, queue, type, tally)
SELECT $1::integer, $2::bigint, lane.queue, lane.type, lane.tally
FROM unnest($3::text[], $4::text[], $5::text[]) AS lane (queue, type, tally)
ON CONFLICT (step, at, queue, type) DO UPDATE SET tally = excluded.tally

-- name: history_by_lane
-- The lanes of the buckets of a span, oldest first, without the totals. By primary key.
SELECT at, queue, type, tally FROM {schema}rota_history
WHERE step = $1::integer AND at >= $2::bigint AND at < $3::bigint AND queue <> ''
ORDER BY at, queue, type LIMIT $4::bigint

-- name: history_totals
-- The totals of the buckets of a span, oldest first. Served by rota_history_total.
SELECT at, queue, type, tally FROM {schema}rota_history
WHERE queue = '' AND step = $1::integer AND at >= $2::bigint AND at < $3::bigint ORDER BY at LIMIT $4::bigint

-- name: delete_old_history
-- Delete old buckets of one length. By primary key.
DELETE FROM {schema}rota_history WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}rota_history
    WHERE step = $1::integer AND at < $2::bigint
    ORDER BY at
    LIMIT $3::bigint
    FOR UPDATE SKIP LOCKED
))

-- name: delete_old_history_writers
-- Delete processes that have added nothing for long. Few rows.
DELETE FROM {schema}rota_history_writer WHERE at < $1::bigint AND writer <> ''
