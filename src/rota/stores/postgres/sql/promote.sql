-- Make jobs whose time has come pending, the earliest first. Served by job_time, from where its edge is known to be. May
-- take a notice along, see hearing.py: PostgreSQL sends equal ones of one transaction once, and none if nothing is due.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
due AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM clock, job
    WHERE job.state IN ('scheduled', 'retrying') AND job.run_at >= $3::bigint AND job.run_at <= clock.now
    ORDER BY job.run_at, job.id
    LIMIT $2::bigint
    FOR UPDATE OF job SKIP LOCKED
)
UPDATE job SET state = 'pending', updated_at = clock.now
FROM clock, due
WHERE job.ctid = due.place
RETURNING job.queue, CASE WHEN $4::text IS NOT NULL THEN pg_notify($4::text, $5::text)::text END
