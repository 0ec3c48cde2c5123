-- name: job_columns
-- Columns of a job, overlaid by its lease while it runs.
job.id, job.type, job.payload, job.queue, job.priority, IF(lease.id IS NULL, job.state, 'running'), job.run_at,
job.created_at, coalesce(lease.updated_at, job.updated_at), coalesce(lease.fence, job.fence),
job.attempts + (lease.id IS NOT NULL), job.crashes, job.max_attempts, job.backoff, job.delivery, job.timeout,
job.expires_at, coalesce(lease.worker, job.worker), coalesce(lease.boot, job.boot), lease.lease_until,
coalesce(lease.started_at, job.started_at), job.finished_at,
coalesce(lease.cancel_requested_at, job.cancel_requested_at), job.result, job.error, job.reason, job.idempotency_key,
job.concurrency_key, job.tags, job.meta, job.blockers, job.on_success, job.on_failure, job.parent_id, job.schedule_id,
job.fire_time

-- name: light_job_columns
-- The same without payload and result: most lists show neither, and they may have a megabyte.
job.id, job.type, 'null', job.queue, job.priority, IF(lease.id IS NULL, job.state, 'running'), job.run_at,
job.created_at, coalesce(lease.updated_at, job.updated_at), coalesce(lease.fence, job.fence),
job.attempts + (lease.id IS NOT NULL), job.crashes, job.max_attempts, job.backoff, job.delivery, job.timeout,
job.expires_at, coalesce(lease.worker, job.worker), coalesce(lease.boot, job.boot), lease.lease_until,
coalesce(lease.started_at, job.started_at), job.finished_at,
coalesce(lease.cancel_requested_at, job.cancel_requested_at), NULL, job.error, job.reason, job.idempotency_key,
job.concurrency_key, job.tags, job.meta, job.blockers, job.on_success, job.on_failure, job.parent_id, job.schedule_id,
job.fire_time

-- name: schedule_columns
-- Columns of a schedule.
id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app

-- name: sets_optional_fields
-- Whether a job sets fields that nearly no job sets, besides its concurrency key: then a claim reads it whole.
job.blockers <> 0 OR coalesce(
    job.backoff, job.timeout, job.expires_at, job.cancel_requested_at, job.result, job.error, job.reason,
    job.idempotency_key, job.tags, job.meta, job.on_success, job.on_failure, job.parent_id, job.schedule_id,
    job.fire_time
) IS NOT NULL

-- name: placement_columns
-- Columns of state_tables.Placement: the job, overlaid by its lease while it runs.
job.id, IF(lease.id IS NULL, job.state, 'running'), job.queue, job.type, job.priority, job.turn, job.run_at,
job.expires_at, job.finished_at, job.fingerprint, coalesce(lease.fence, job.fence), job.blockers, lease.lease_until,
coalesce(lease.cancel_requested_at, job.cancel_requested_at), lease.worker, lease.boot, lease.started_at,
job.attempts + (lease.id IS NOT NULL), job.crashes, job.concurrency_key

-- name: claimed_columns
-- Columns that a claim returns of a job that it is about to lease. The last is the concurrency key, or an empty text if
-- the job sets other optional fields.
job.id, job.type, job.payload, job.queue, job.priority, job.run_at, job.created_at, job.fence + 1, job.attempts + 1,
job.crashes, job.max_attempts, job.delivery, CAST(%(now)s AS SIGNED),
IF({sets_optional_fields}, '', job.concurrency_key)

-- name: workflow_node_columns
-- All columns that make a Node, in the order that workflow_rows.py expects.
node.workflow_id, node.position, node.name, node.job_id, node.parents, node.runs_after_failure, node.replaced_by,
node.is_skipped, node.state, node.reason, IF(lease.id IS NULL, job.state, 'running'),
IF(lease.id IS NULL, job.reason, NULL), job.type, job.queue, job.attempts + (lease.id IS NOT NULL), job.created_at,
coalesce(lease.started_at, job.started_at), job.finished_at, job.run_at

-- name: breaker_columns
-- Columns of a breaker, in the order in which breaker_rows.py reads them.
name, failures, counted, least, open_for, probes, tasks, is_open, is_forced, since, open_until, reason, set_by, opened,
version
