job.id, job.type, job.payload, job.queue, job.priority, IF(lease.id IS NULL, job.state, 'running'), job.run_at,
job.created_at, coalesce(lease.updated_at, job.updated_at), coalesce(lease.fence, job.fence),
job.attempts + (lease.id IS NOT NULL), job.crashes, job.max_attempts, job.backoff, job.delivery, job.timeout,
job.expires_at, coalesce(lease.worker, job.worker), coalesce(lease.boot, job.boot), lease.lease_until,
coalesce(lease.started_at, job.started_at), job.finished_at,
coalesce(lease.cancel_requested_at, job.cancel_requested_at), job.result, job.error, job.reason, job.idempotency_key,
job.concurrency_key, job.tags, job.meta, job.blockers, job.on_success, job.on_failure, job.parent_id, job.schedule_id,
job.fire_time
