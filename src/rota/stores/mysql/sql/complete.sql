-- Settle plain successes whose leases we keep, and who have one result. By primary key.
UPDATE job FORCE INDEX (PRIMARY) STRAIGHT_JOIN lease ON lease.id = job.id
SET job.state = 'completed', job.finished_at = %(now)s, job.updated_at = %(now)s, job.result = %(result)s,
    job.error = NULL, job.reason = NULL, job.fingerprint = NULL, job.fence = lease.fence,
    job.attempts = job.attempts + 1, job.worker = lease.worker, job.boot = lease.boot,
    job.started_at = lease.started_at, job.cancel_requested_at = lease.cancel_requested_at
WHERE job.id IN %(ids)s
