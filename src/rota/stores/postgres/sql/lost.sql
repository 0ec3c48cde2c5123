-- Give running jobs whose lease has run out. Served by job_lease, from where its edge is known to be.
SELECT {job_columns}
FROM job
WHERE state = 'running' AND lease_until <= $1::bigint AND lease_until >= $3::bigint
ORDER BY lease_until, id
LIMIT $2::bigint
