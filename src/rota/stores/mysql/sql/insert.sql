-- Store new jobs.
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, expires_at, timeout, delivery,
    backoff, payload, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
    schedule_id, fire_time
) VALUES (
    %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s
)
