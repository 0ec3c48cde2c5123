-- Make jobs whose time has come pending, the earliest first. Served by job_time, which must be named: SQLite would rather
-- read and sort all of job_later.
UPDATE job SET state = 'pending', updated_at = :now
WHERE id IN (
    SELECT id FROM job INDEXED BY job_time
    WHERE state IN ('scheduled', 'retrying') AND run_at <= :now ORDER BY run_at LIMIT :limit
)
RETURNING queue
