-- Store new jobs that set nothing beyond what every job sets, and differ in id and payload only. Otherwise as
-- insert_plain.sql; two arrays instead of eight.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
room AS MATERIALIZED (
    SELECT bound.most IS NULL OR pg_relation_size('job') / 8192 * 64 + 100000 < bound.most AS is_there
    FROM (
        SELECT least($3::bigint, (SELECT min(max_depth) FROM queue WHERE name = $5::text)) AS most OFFSET 0
    ) AS bound
)
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT
    new.id, $4::text, $5::text, $6::smallint,
    CASE WHEN $7::bigint > clock.now THEN 'scheduled' ELSE 'pending' END,
    greatest($7::bigint, clock.now) - $6::smallint * $2::bigint,
    coalesce($7::bigint, clock.now), clock.now, clock.now, $8::bigint, $9::text, new.payload
FROM clock, room, unnest($10::text::bigint[], $11::text[]) AS new (id, payload)
WHERE room.is_there AND new.id BETWEEN {first}::bigint AND {last}::bigint
    AND NOT EXISTS (
        SELECT 1 FROM job_done
        WHERE job_done.id = new.id AND job_done.id BETWEEN {first}::bigint AND {last}::bigint
        OFFSET 0
    )
ON CONFLICT (id) DO NOTHING
RETURNING id, state
