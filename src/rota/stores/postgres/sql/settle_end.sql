-- End jobs, if they are still where and whose they were, and remember the attempts that ended thereby. By primary key.
WITH moved AS (
    DELETE FROM job USING unnest(
        $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::boolean[], $10::boolean[],
        $11::boolean[], $12::boolean[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::boolean[]
    ) AS settled (
        id, fence, source, target, event, new_run_at, refund, crash, renew, if_lapsed, new_result, new_error,
        new_reason, new_fingerprint, log_tail, is_noted
    )
    WHERE job.id = settled.id AND job.fence = settled.fence AND job.state = settled.source
        AND (NOT settled.if_lapsed OR job.lease_until <= $1::bigint)
    RETURNING job.*, settled.target, settled.event, settled.new_run_at, settled.refund, settled.crash, settled.renew,
        settled.new_result, settled.new_error, settled.new_reason, settled.new_fingerprint, settled.log_tail,
        settled.is_noted
),
kept AS (
    INSERT INTO job_done (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
        worker, boot, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff, payload,
        result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time
    )
    SELECT
        id, type, queue, priority, target,
        CASE WHEN new_run_at IS NULL THEN turn ELSE new_run_at - priority * $2::bigint END,
        coalesce(new_run_at, run_at), created_at, $1::bigint, fence,
        CASE WHEN renew THEN 0 ELSE attempts - refund::integer END,
        CASE WHEN renew THEN 0 ELSE crashes + crash::integer END,
        max_attempts, worker, boot, started_at, $1::bigint, CASE WHEN NOT renew THEN cancel_requested_at END,
        CASE WHEN NOT renew THEN expires_at END, timeout, delivery, backoff, payload, new_result, new_error, new_reason,
        new_fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
        schedule_id, fire_time
    FROM moved
    ON CONFLICT DO NOTHING
),
noted AS (
    INSERT INTO attempt (job_id, fence, worker, boot, started_at, ended_at, event, error, log_tail)
    SELECT id, fence, worker, boot, started_at, $1::bigint, event, new_error, log_tail FROM moved WHERE is_noted
    ON CONFLICT (job_id, fence) DO UPDATE
    SET ended_at = excluded.ended_at, event = excluded.event, error = excluded.error,
        log_tail = coalesce(excluded.log_tail, attempt.log_tail)
)
SELECT id FROM moved
