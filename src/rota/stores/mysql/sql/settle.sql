-- Write down what becomes of a job that we keep locked. By primary key.
UPDATE job
SET state = %s,
    run_at = %s,
    turn = %s,
    attempts = %s,
    crashes = %s,
    cancel_requested_at = %s,
    expires_at = %s,
    finished_at = %s,
    result = %s,
    error = %s,
    reason = %s,
    fingerprint = %s,
    fence = %s,
    worker = coalesce(%s, worker),
    boot = coalesce(%s, boot),
    started_at = coalesce(%s, started_at),
    updated_at = %s,
    room = NULL
WHERE id = %s
