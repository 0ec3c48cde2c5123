-- Cancel jobs that wait, for a reason other than being asked to. By primary key.
WITH gone AS (
    DELETE FROM job USING unnest($2::bigint[]) AS wanted (id)
    WHERE job.id = wanted.id AND job.state = ANY($3::text[])
    RETURNING job.*
), kept AS (
    INSERT INTO job_done (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
        worker, boot, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff, payload,
        result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time
    )
    SELECT
        id, type, queue, priority, 'cancelled', turn, run_at, created_at, $1::bigint, fence, attempts, crashes,
        max_attempts, worker, boot, started_at, $1::bigint, cancel_requested_at, expires_at, timeout, delivery, backoff,
        payload, result, error, $4::text, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers,
        on_success, on_failure, parent_id, schedule_id, fire_time
    FROM gone
    ON CONFLICT DO NOTHING
)
SELECT id FROM gone
