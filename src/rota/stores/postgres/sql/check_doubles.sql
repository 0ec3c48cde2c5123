-- Give jobs that are unfinished and finished at once. By primary key.
SELECT job.id::text FROM job JOIN job_done ON job_done.id = job.id ORDER BY job.id LIMIT 100
