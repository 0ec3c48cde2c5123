-- Give waiting jobs that are too late to start. By primary key of expiry.
SELECT {job_columns}
FROM expiry FORCE INDEX (PRIMARY) STRAIGHT_JOIN job ON job.id = expiry.id LEFT JOIN lease ON lease.id = expiry.id
WHERE expiry.expires_at <= %(now)s AND lease.id IS NULL
ORDER BY expiry.expires_at, expiry.id
LIMIT %(limit)s
