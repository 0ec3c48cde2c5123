-- Give how jobs stand that nobody else is busy with, and keep them so until we are done. By primary key.
SELECT
    job.id, IF(lease.id IS NULL, job.state, 'running'), job.queue, job.type, job.priority, job.turn, job.run_at,
    job.expires_at, job.finished_at, job.fingerprint, coalesce(lease.fence, job.fence), job.blockers, lease.lease_until,
    coalesce(lease.cancel_requested_at, job.cancel_requested_at), lease.worker, lease.boot, lease.started_at,
    job.attempts + (lease.id IS NOT NULL), job.crashes
FROM job FORCE INDEX (PRIMARY) LEFT JOIN lease FORCE INDEX (PRIMARY) ON lease.id = job.id
WHERE job.id IN %(ids)s
ORDER BY job.id
FOR UPDATE SKIP LOCKED
