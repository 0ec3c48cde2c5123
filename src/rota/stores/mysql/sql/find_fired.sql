-- The beginning of a search for jobs that a schedule made; reading.py adds the conditions. By primary key of fired, from
-- the right.
SELECT {job_columns}
FROM fired FORCE INDEX (PRIMARY) STRAIGHT_JOIN job ON job.id = fired.job_id LEFT JOIN lease ON lease.id = job.id
