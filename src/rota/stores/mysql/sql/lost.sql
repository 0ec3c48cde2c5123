-- Give running jobs whose lease has run out. Served by lease_end.
SELECT {job_columns}
FROM lease FORCE INDEX (lease_end) STRAIGHT_JOIN job ON job.id = lease.id
WHERE lease.lease_until <= %(now)s
ORDER BY lease.lease_until, lease.id
LIMIT %(limit)s
