-- Store new jobs that set nothing beyond what every job sets. Otherwise as insert.sql, but made for some ids, as
-- insert_one.sql.
-- Where queues have a bound, only if the table as it lies on the disk has not even the room for so many unfinished jobs
-- (64 fit on a page), with some to spare for those that others are just storing; otherwise nothing is stored.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
room AS MATERIALIZED (
    SELECT bound.most IS NULL OR pg_relation_size('job') / 8192 * 64 + 100000 < bound.most AS is_there
    FROM (
        SELECT least($3::bigint, (SELECT min(max_depth) FROM queue WHERE name = ANY($4::text[]))) AS most OFFSET 0
    ) AS bound
)
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT
    new.id, new.type, new.queue, new.priority,
    CASE WHEN new.run_at > clock.now THEN 'scheduled' ELSE 'pending' END,
    greatest(new.run_at, clock.now) - new.priority * $2::bigint,
    coalesce(new.run_at, clock.now), clock.now, clock.now, new.max_attempts, new.delivery, new.payload
FROM clock, room, unnest(
    $5::bigint[], $6::text[], $7::text[], $8::smallint[], $9::bigint[], $10::bigint[], $11::text[], $12::text[]
) AS new (id, type, queue, priority, run_at, max_attempts, delivery, payload)
WHERE room.is_there AND new.id BETWEEN {first}::bigint AND {last}::bigint
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = new.id OFFSET 0)
    AND NOT EXISTS (
        SELECT 1 FROM job_done
        WHERE job_done.id = new.id AND job_done.id BETWEEN {first}::bigint AND {last}::bigint
        OFFSET 0
    )
ON CONFLICT (id) DO NOTHING
RETURNING id, state, created_at
