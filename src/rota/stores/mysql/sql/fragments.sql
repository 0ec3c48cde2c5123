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

-- name: schedule_columns
-- Columns of a schedule.
id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app

-- name: sets_optional_fields
-- Whether a job sets fields that nearly no job sets: then a claim reads it whole.
job.blockers <> 0 OR coalesce(
    job.backoff, job.timeout, job.expires_at, job.cancel_requested_at, job.result, job.error, job.reason,
    job.idempotency_key, job.concurrency_key, job.tags, job.meta, job.on_success, job.on_failure, job.parent_id,
    job.schedule_id, job.fire_time
) IS NOT NULL

-- name: placement_columns
-- Columns of state_tables.Placement: the job, overlaid by its lease while it runs.
job.id, IF(lease.id IS NULL, job.state, 'running'), job.queue, job.type, job.priority, job.turn, job.run_at,
job.expires_at, job.finished_at, job.fingerprint, coalesce(lease.fence, job.fence), job.blockers, lease.lease_until,
coalesce(lease.cancel_requested_at, job.cancel_requested_at), lease.worker, lease.boot, lease.started_at,
job.attempts + (lease.id IS NOT NULL), job.crashes

-- name: claimed_columns
-- Columns that a claim returns of a job that it is about to lease. The last says whether the job sets optional fields.
job.id, job.type, job.payload, job.queue, job.priority, job.run_at, job.created_at, job.fence + 1, job.attempts + 1,
job.crashes, job.max_attempts, job.delivery, CAST(%(now)s AS SIGNED), IF({sets_optional_fields}, 1, NULL)
