id, type, payload, queue, priority, state, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
backoff, delivery, timeout, expires_at, worker, boot, lease_until, started_at, finished_at, cancel_requested_at,
result, error, reason, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
schedule_id, fire_time
