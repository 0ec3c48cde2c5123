-- The beginning of a list of jobs; listing.py adds the conditions. By primary key.
SELECT {job_columns} FROM job LEFT JOIN lease ON lease.id = job.id
