-- Make jobs whose time has come pending, the earliest first. Served by job_time, from where its edge is known to be.
WITH due AS MATERIALIZED (
    SELECT ctid AS place
    FROM job
    WHERE state IN ('scheduled', 'retrying') AND run_at >= $3::bigint AND run_at <= $1::bigint
    ORDER BY run_at, id
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
)
UPDATE job SET state = 'pending', updated_at = $1::bigint
FROM due
WHERE job.ctid = due.place
RETURNING job.queue
