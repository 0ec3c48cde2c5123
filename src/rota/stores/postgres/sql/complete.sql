-- Settle plain successes whose fence still holds and for which no other job waits. By primary key.
-- A job has a lease exactly while it runs; asked by its state, the planner would start from all that run.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
gone AS (
    DELETE FROM job USING unnest($2::text::bigint[], $3::text::bigint[], $4::text[]) AS settled (id, fence, outcome)
    WHERE job.id = settled.id AND job.fence = settled.fence AND job.lease_until IS NOT NULL AND NOT job.is_awaited
    RETURNING job.*, settled.outcome
),
kept AS (
    INSERT INTO job_done (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
        worker, boot, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff, payload,
        result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time
    )
    SELECT
        id, type, queue, priority, 'completed', turn, run_at, created_at, clock.now, fence, attempts, crashes,
        max_attempts, worker, boot, started_at, clock.now, cancel_requested_at, expires_at, timeout, delivery, backoff,
        payload, outcome, NULL, NULL, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time
    FROM gone, clock
)
SELECT id FROM gone
