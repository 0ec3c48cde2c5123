-- What a claim tells of a job, and whether the job sets more than nearly every job does. What else there is of it is the
-- same for all jobs of the claim.
id, type, payload, queue, priority, run_at, created_at, fence, attempts, crashes, max_attempts, delivery, started_at,
CASE
    WHEN blockers <> 0 OR coalesce(
        backoff, timeout, expires_at, cancel_requested_at, result, error, reason, idempotency_key, concurrency_key,
        tags, meta, on_success, on_failure, parent_id, schedule_id, fire_time
    ) IS NOT NULL
    THEN 1
END
