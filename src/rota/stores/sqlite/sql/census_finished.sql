-- Count finished jobs by state. Counted in job_finished alone.
SELECT state, count(*) FROM job WHERE finished_at IS NOT NULL GROUP BY state
