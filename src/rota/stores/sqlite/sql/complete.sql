-- Settle plain successes whose fence still holds: job, fence and result of each. By primary key. Repeated for many rows.
UPDATE job
SET state = 'completed', lease_until = NULL, finished_at = ?, updated_at = ?, result = done.column3, error = NULL,
    reason = NULL
FROM (VALUES (?, ?, ?)) AS done
WHERE job.id = done.column1 AND job.fence = done.column2 AND job.state = 'running'
