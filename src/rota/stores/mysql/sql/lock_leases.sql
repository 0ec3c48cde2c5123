-- Give how running jobs stand, and keep them so until we are done. By primary key; the lease first, as all do.
SELECT
    job.id, IF(lease.id IS NULL, job.state, 'running'), job.queue, job.type, job.priority, job.turn, job.run_at,
    job.expires_at, job.finished_at, job.fingerprint, coalesce(lease.fence, job.fence), job.blockers, lease.lease_until,
    coalesce(lease.cancel_requested_at, job.cancel_requested_at), lease.worker, lease.boot, lease.started_at,
    job.attempts + (lease.id IS NOT NULL), job.crashes
FROM lease FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = lease.id
WHERE lease.id IN %(ids)s
ORDER BY lease.id
FOR UPDATE
