-- Give running jobs whose lease has run out. Served by job_lease.
SELECT {job_columns}
FROM job
WHERE state = 'running' AND lease_until <= $1::bigint
ORDER BY lease_until, id
LIMIT $2::bigint
