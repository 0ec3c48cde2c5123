-- New jobs with their tags.

-- name: insert_jobs
-- Store new jobs whose ids are free. By primary key, of rota_job and of one partition of rota_job_done. It looks into
-- both, because the unique index no longer holds a job that ends meanwhile, but one of the two tables does in the
-- snapshot of this statement. A job that came and ended after this statement began is refused by the trigger
-- rota_job_ended_meanwhile. OFFSET 0 keeps the check of rota_job_done one lookup per job: a join would be planned while
-- the table is small.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now)
INSERT INTO {schema}rota_job AS job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, expires_at, timeout, delivery,
    backoff, payload, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
    schedule_id, fire_time
)
SELECT
    new.id, new.type, new.queue, new.priority,
    CASE WHEN new.blockers > 0 THEN 'blocked' WHEN new.run_at > clock.now THEN 'scheduled' ELSE 'pending' END,
    greatest(new.run_at, clock.now) - new.priority * $2::bigint,
    coalesce(new.run_at, clock.now), clock.now, clock.now, new.max_attempts, new.expires_at, new.timeout, new.delivery,
    new.backoff, new.payload, new.idempotency_key, new.concurrency_key, new.tags, new.meta, new.blockers,
    new.on_success, new.on_failure, new.parent_id, new.schedule_id, new.fire_time
FROM clock, unnest(
    $3::bigint[], $4::text[], $5::text[], $6::smallint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
    $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::integer[],
    $19::text[], $20::text[], $21::bigint[], $22::bigint[], $23::bigint[]
) AS new (
    id, type, queue, priority, run_at, max_attempts, expires_at, timeout, delivery, backoff, payload, idempotency_key,
    concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id, schedule_id, fire_time
)
WHERE NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = new.id OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job_done AS job_done WHERE job_done.id = new.id OFFSET 0)
ON CONFLICT (id) DO NOTHING
RETURNING id, state

-- name: insert_bulk
-- Store new plain jobs that are due at once and differ in id and payload only: all of them, or none. Queue limits as
-- in insert_plain. Returns one row, the time that all jobs got, or none if none was stored: a row for each job, and to
-- be prepared for an id that is taken at the same moment, cost the server a third of all. The payloads come as one
-- text, separated by a character that JSON has to escape. For the ids of one partition, see partitions.py.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
given AS MATERIALIZED (SELECT $9::text::bigint[] AS ids),
room AS MATERIALIZED (
    SELECT bound.most IS NULL OR pg_relation_size('{schema}rota_job') / 8192 * 64 + 100000 < bound.most AS is_there
    FROM (
        SELECT least($3::bigint, (SELECT min(max_depth) FROM {schema}rota_queue WHERE name = $5::text)) AS most OFFSET 0
    ) AS bound
),
free AS MATERIALIZED (
    SELECT (SELECT is_there FROM room)
        AND NOT EXISTS (
            SELECT 1 FROM given, unnest(given.ids) AS one (id)
            WHERE one.id NOT BETWEEN {first}::bigint AND {last}::bigint
        )
        AND NOT EXISTS (SELECT 1 FROM {schema}rota_job WHERE id = ANY((SELECT ids FROM given)::bigint[]))
        AND NOT EXISTS (
            SELECT 1 FROM {schema}rota_job_done
            WHERE id = ANY((SELECT ids FROM given)::bigint[]) AND id BETWEEN {first}::bigint AND {last}::bigint
        ) AS are_all
),
stored AS (
    INSERT INTO {schema}rota_job (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
    )
    SELECT
        new.id, $4::text, $5::text, $6::smallint, 'pending', clock.now - $6::smallint * $2::bigint, clock.now,
        clock.now, clock.now, $7::bigint, $8::text, new.payload
    FROM clock, given, unnest(given.ids, string_to_array($10::text, E'\x1f')) AS new (id, payload)
    WHERE (SELECT are_all FROM free)
)
SELECT now FROM clock WHERE (SELECT are_all FROM free)

-- name: insert_due
-- Store one new plain job that is due at once, without notification, and return the time that it got. It raises a
-- unique violation for an id that is taken at the same moment. Otherwise as insert_one.
INSERT INTO {schema}rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT
    $3::bigint, $4::text, $5::text, $6::smallint, 'pending', clock.now - $6::smallint * $2::bigint, clock.now, clock.now,
    clock.now, $7::bigint, $8::text, $9::text
FROM (SELECT coalesce($1::bigint, {clock}) AS now OFFSET 0) AS clock
WHERE $3::bigint BETWEEN {first}::bigint AND {last}::bigint
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_queue WHERE name = $5::text AND max_depth IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job WHERE id = $3::bigint)
    AND NOT EXISTS (
        SELECT 1 FROM {schema}rota_job_done WHERE id = $3::bigint AND id BETWEEN {first}::bigint AND {last}::bigint
    )
RETURNING created_at

-- name: insert_one
-- Store one new plain job (it sets nothing beyond what every job sets), unless its queue has a limit. For one caller
-- that comes alone: everything that a batch would share costs it twice. It may send a notification, see notify.py. For
-- the ids of one partition of rota_job_done: it looks into no other, see partitions.py.
INSERT INTO {schema}rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT
    $3::bigint, $4::text, $5::text, $6::smallint,
    CASE WHEN $7::bigint > clock.now THEN 'scheduled' ELSE 'pending' END,
    greatest($7::bigint, clock.now) - $6::smallint * $2::bigint,
    coalesce($7::bigint, clock.now), clock.now, clock.now, $8::bigint, $9::text, $10::text
FROM (SELECT coalesce($1::bigint, {clock}) AS now OFFSET 0) AS clock
WHERE $3::bigint BETWEEN {first}::bigint AND {last}::bigint
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_queue WHERE name = $5::text AND max_depth IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job WHERE id = $3::bigint)
    AND NOT EXISTS (
        SELECT 1 FROM {schema}rota_job_done WHERE id = $3::bigint AND id BETWEEN {first}::bigint AND {last}::bigint
    )
ON CONFLICT (id) DO NOTHING
RETURNING id, state, created_at, CASE WHEN $11::text IS NOT NULL THEN pg_notify($11::text, $12::text)::text END

-- name: insert_plain
-- Store new plain jobs. For the ids of one partition, as insert_one; otherwise as insert_jobs. If queues have a limit,
-- only if the table's size on disk is too small for that many unfinished jobs (64 fit on a page), with some to spare
-- for concurrent inserts; otherwise nothing is stored.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
room AS MATERIALIZED (
    SELECT bound.most IS NULL OR pg_relation_size('{schema}rota_job') / 8192 * 64 + 100000 < bound.most AS is_there
    FROM (
        SELECT least($3::bigint, (SELECT min(max_depth) FROM {schema}rota_queue
        WHERE name = ANY($4::text[]))) AS most OFFSET 0
    ) AS bound
)
INSERT INTO {schema}rota_job AS job (
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
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_job AS job WHERE job.id = new.id OFFSET 0)
    AND NOT EXISTS (
        SELECT 1 FROM {schema}rota_job_done AS job_done
        WHERE job_done.id = new.id AND job_done.id BETWEEN {first}::bigint AND {last}::bigint
        OFFSET 0
    )
ON CONFLICT (id) DO NOTHING
RETURNING id, state, created_at

-- name: insert_tags
-- Index jobs by their tags.
INSERT INTO {schema}rota_tag (tag, job_id) SELECT * FROM unnest($1::text[], $2::bigint[]) ON CONFLICT DO NOTHING
