-- Give the states of jobs by id. By primary key.
SELECT job.id, IF(lease.id IS NULL, job.state, 'running')
FROM job LEFT JOIN lease ON lease.id = job.id WHERE job.id IN %(ids)s
