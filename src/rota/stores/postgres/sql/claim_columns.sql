-- What a claim tells of a job. The rest is the same for all jobs of the claim, or nothing at all for nearly every job.
id, type, payload, queue, priority, run_at, created_at, fence, attempts, crashes, max_attempts, delivery, started_at,
CASE
    WHEN blockers <> 0 OR num_nonnulls(
        backoff, timeout, expires_at, cancel_requested_at, result, error, reason, idempotency_key, concurrency_key,
        tags, meta, on_success, on_failure, parent_id, schedule_id, fire_time
    ) > 0
    THEN ROW(
        backoff, timeout, expires_at, cancel_requested_at, result, error, reason, idempotency_key, concurrency_key,
        tags, meta, blockers, on_success, on_failure, parent_id, schedule_id, fire_time
    )
END AS more, turn
