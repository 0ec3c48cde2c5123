-- Give waiting jobs that are too late to start. Served by job_expiry.
SELECT {job_columns}
FROM job
WHERE expires_at IS NOT NULL AND finished_at IS NULL AND expires_at <= ? AND state <> 'running'
ORDER BY expires_at
LIMIT ?
