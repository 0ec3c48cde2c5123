-- Give what a claim tells of jobs that were just leased, and whether a job sets more than nearly every job does. What else
-- there is of it is the same for all jobs of the claim. By primary key.
SELECT
    job.id, job.type, job.payload, job.queue, job.priority, job.run_at, job.created_at, lease.fence, job.attempts + 1,
    job.crashes, job.max_attempts, job.delivery, lease.started_at,
    IF(
        job.blockers <> 0 OR coalesce(
            job.backoff, job.timeout, job.expires_at, lease.cancel_requested_at, job.cancel_requested_at, job.result,
            job.error, job.reason, job.idempotency_key, job.concurrency_key, job.tags, job.meta, job.on_success,
            job.on_failure, job.parent_id, job.schedule_id, job.fire_time
        ) IS NOT NULL,
        1, NULL
    )
FROM lease FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = lease.id
WHERE lease.id IN %(ids)s
