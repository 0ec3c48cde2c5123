-- Give jobs by id. By primary key.
SELECT {job_columns} FROM job LEFT JOIN lease ON lease.id = job.id WHERE job.id IN %(ids)s
