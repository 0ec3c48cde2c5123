-- Give what a claim tells of jobs that were just leased, and whether a job sets more than nearly every job does. What else
-- there is of it is the same for all jobs of the claim. By primary key.
SELECT
    job.id, job.type, job.payload, job.queue, job.priority, job.run_at, job.created_at, lease.fence, job.attempts + 1,
    job.crashes, job.max_attempts, job.delivery, lease.started_at,
    IF(lease.cancel_requested_at IS NOT NULL OR {sets_more}, 1, NULL)
FROM lease FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = lease.id
WHERE lease.id IN %(ids)s
