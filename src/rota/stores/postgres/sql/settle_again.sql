-- Let finished jobs wait once more, if they are still as they were. By primary key of the part of each: the state is
-- asked in a way that no index can answer, or all dead jobs might be read for one.
WITH moved AS (
    DELETE FROM job_done USING unnest(
        $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::boolean[], $10::boolean[],
        $11::boolean[], $12::boolean[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::boolean[]
    ) AS settled (
        id, fence, source, target, event, new_run_at, refund, crash, renew, if_lapsed, new_result, new_error,
        new_reason, new_fingerprint, log_tail, is_noted
    )
    WHERE job_done.id = settled.id AND job_done.fence = settled.fence AND job_done.state || '' = settled.source
    RETURNING job_done.*, settled.target, settled.new_run_at, settled.refund, settled.crash, settled.renew,
        settled.new_result, settled.new_error, settled.new_reason, settled.new_fingerprint
),
kept AS (
    INSERT INTO job (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
        worker, boot, started_at, cancel_requested_at, expires_at, timeout, delivery, backoff, payload, result,
        error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure,
        parent_id, schedule_id, fire_time
    )
    SELECT
        id, type, queue, priority, target,
        CASE WHEN new_run_at IS NULL THEN turn ELSE new_run_at - priority * $2::bigint END,
        coalesce(new_run_at, run_at), created_at, $1::bigint, fence,
        CASE WHEN renew THEN 0 ELSE attempts - refund::integer END,
        CASE WHEN renew THEN 0 ELSE crashes + crash::integer END,
        max_attempts, worker, boot, started_at, CASE WHEN NOT renew THEN cancel_requested_at END,
        CASE WHEN NOT renew THEN expires_at END, timeout, delivery, backoff, payload, new_result, new_error, new_reason,
        new_fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
        schedule_id, fire_time
    FROM moved
)
SELECT id FROM moved
