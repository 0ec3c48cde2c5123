-- Store new jobs, but none whose id is taken. By primary key, of the hot table and of one part of the archive.
-- It looks into both, because a job that ends meanwhile is free to the unique index, but is in one of them as this
-- statement sees them. What came and ended after this statement began is refused by the trigger job_ended_meanwhile.
-- OFFSET 0 keeps the look into the archive one look for each job: a join would be planned when the archive is small.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now)
INSERT INTO job (
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
WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.id = new.id OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM job_done WHERE job_done.id = new.id OFFSET 0)
ON CONFLICT (id) DO NOTHING
RETURNING id, state
