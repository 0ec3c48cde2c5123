-- name: job_columns
-- All columns that make a Job, in the order that rows.py expects.
id, type, payload, queue, priority, state, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
backoff, delivery, timeout, expires_at, worker, boot, lease_until, started_at, finished_at, cancel_requested_at,
result, error, reason, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
schedule_id, fire_time

-- name: light_job_columns
-- The same without payload and result: most lists show neither, and they may have a megabyte.
id, type, 'null', queue, priority, state, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
backoff, delivery, timeout, expires_at, worker, boot, lease_until, started_at, finished_at, cancel_requested_at,
NULL, error, reason, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
schedule_id, fire_time

-- name: claim_columns
-- The columns that a claim returns. The last is the concurrency key, or an empty text if the job sets other optional
-- fields: only those jobs are read in full.
id, type, payload, queue, priority, run_at, created_at, fence, attempts, crashes, max_attempts, delivery, started_at,
CASE
    WHEN blockers <> 0 OR coalesce(
        backoff, timeout, expires_at, cancel_requested_at, result, error, reason, idempotency_key, tags, meta,
        on_success, on_failure, parent_id, schedule_id, fire_time
    ) IS NOT NULL
    THEN ''
    ELSE concurrency_key
END

-- name: schedule_columns
-- All columns that make a Schedule, in the order that rows.py expects.
id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app

-- name: queue_columns
-- All columns that make a Queue, in the order that rows.py expects.
name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version

-- name: paused_queue_names
-- The queues from which no job may be claimed now.
SELECT name FROM rota_queue WHERE paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > :now)

-- name: has_no_limit
-- A job that no limit concerns. Others are claimed by key or by limited lane only: never handed over, ahead of time or
-- through a broker.
concurrency_key IS NULL AND NOT EXISTS (
    SELECT 1 FROM rota_limit
    WHERE name IN ('queue:' || rota_job.queue, 'task:' || rota_job.type)
)

-- name: workflow_node_columns
-- All columns that make a Node, in the order that workflow_rows.py expects.
node.workflow_id, node.position, node.name, node.job_id, node.parents, node.runs_after_failure, node.replaced_by,
node.is_skipped, node.state, node.reason, job.state, job.reason, job.type, job.queue, job.attempts, job.created_at,
job.started_at, job.finished_at, job.run_at

-- name: breaker_columns
-- All columns that make a CircuitBreaker, in the order that breaker_rows.py expects.
name, failures, counted, least, open_for, probes, tasks, is_open, is_forced, since, open_until, reason, set_by, opened,
version
