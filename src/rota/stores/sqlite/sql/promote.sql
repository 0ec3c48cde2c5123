-- Make jobs whose time has come pending, the earliest first. Served by job_time.
UPDATE job SET state = 'pending', updated_at = :now
WHERE id IN (
    SELECT id FROM job WHERE state IN ('scheduled', 'retrying') AND run_at <= :now ORDER BY run_at LIMIT :limit
)
RETURNING queue
