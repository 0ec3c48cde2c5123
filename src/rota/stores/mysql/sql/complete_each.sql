-- Settle a plain success whose lease we keep, each with a result of its own. By primary key.
UPDATE job FORCE INDEX (PRIMARY) STRAIGHT_JOIN lease ON lease.id = job.id
SET job.state = 'completed', job.finished_at = %s, job.updated_at = %s, job.result = %s, job.error = NULL,
    job.reason = NULL, job.fingerprint = NULL, job.fence = lease.fence, job.attempts = job.attempts + 1,
    job.worker = lease.worker, job.boot = lease.boot, job.started_at = lease.started_at,
    job.cancel_requested_at = lease.cancel_requested_at
WHERE job.id = %s
