-- Count finished jobs by state. In the place of finished jobs alone.
SELECT state, count(*) FROM finished GROUP BY state
