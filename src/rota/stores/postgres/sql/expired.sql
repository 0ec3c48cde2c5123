-- Give waiting jobs that are too late to start. Served by job_expiry.
SELECT {job_columns}
FROM job
WHERE expires_at IS NOT NULL AND expires_at <= $1::bigint AND state <> 'running'
ORDER BY expires_at, id
LIMIT $2::bigint
