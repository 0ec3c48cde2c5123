-- Give what a claim tells of some jobs, if it leases them now: see leased.sql. By primary key.
SELECT
    job.id, job.type, job.payload, job.queue, job.priority, job.run_at, job.created_at, job.fence + 1, job.attempts + 1,
    job.crashes, job.max_attempts, job.delivery, CAST(%(now)s AS SIGNED),
    IF({sets_more}, 1, NULL)
FROM job FORCE INDEX (PRIMARY)
WHERE job.id IN %(ids)s
