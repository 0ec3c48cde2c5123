-- Count finished jobs by state. Counted in job_done_finished alone.
SELECT state, count(*) FROM job_done GROUP BY state
