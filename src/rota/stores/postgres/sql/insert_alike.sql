-- Store new jobs that set nothing beyond what every job sets, are due at once, and differ in id and payload only: all of
-- them, or none. Where queues have a bound, and as to the ids that it is made for, otherwise as insert_plain.sql.
-- It yields one row, the time that they all got, or none if none was stored. A row for each, and to be prepared for an
-- id that is taken at the same moment, cost the server a third of all.
-- The payloads come as one text, with a character between that JSON has to escape.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
given AS MATERIALIZED (SELECT $9::text::bigint[] AS ids),
room AS MATERIALIZED (
    SELECT bound.most IS NULL OR pg_relation_size('job') / 8192 * 64 + 100000 < bound.most AS is_there
    FROM (
        SELECT least($3::bigint, (SELECT min(max_depth) FROM queue WHERE name = $5::text)) AS most OFFSET 0
    ) AS bound
),
free AS MATERIALIZED (
    SELECT (SELECT is_there FROM room)
        AND NOT EXISTS (
            SELECT 1 FROM given, unnest(given.ids) AS one (id)
            WHERE one.id NOT BETWEEN {first}::bigint AND {last}::bigint
        )
        AND NOT EXISTS (SELECT 1 FROM job WHERE id = ANY((SELECT ids FROM given)::bigint[]))
        AND NOT EXISTS (
            SELECT 1 FROM job_done
            WHERE id = ANY((SELECT ids FROM given)::bigint[]) AND id BETWEEN {first}::bigint AND {last}::bigint
        ) AS are_all
),
stored AS (
    INSERT INTO job (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
    )
    SELECT
        new.id, $4::text, $5::text, $6::smallint, 'pending', clock.now - $6::smallint * $2::bigint, clock.now,
        clock.now, clock.now, $7::bigint, $8::text, new.payload
    FROM clock, given, unnest(given.ids, string_to_array($10::text, E'\x1f')) AS new (id, payload)
    WHERE (SELECT are_all FROM free)
)
SELECT now FROM clock WHERE (SELECT are_all FROM free)
