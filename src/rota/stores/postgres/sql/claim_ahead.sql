-- Lease jobs to a worker ahead of their time, at which they start, the earliest first, the most urgent first among those
-- of one time. Served by job_time, then by the rows' places; only those of one time are sorted. The time is asked for in a
-- way that makes it a bound of the index. Otherwise as claim.sql.
-- What must run at most once is left out: were its worker to die while it holds it, it would have to be dead, although it
-- never began.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM job
    WHERE job.state IN ('scheduled', 'retrying')
        AND job.run_at > (SELECT now FROM clock) AND job.run_at <= (SELECT now + $2::bigint FROM clock)
        AND job.delivery <> 'at_most_once'
        AND (job.expires_at IS NULL OR job.expires_at > job.run_at)
        AND job.queue = ANY($3::text[]) AND ($4::text[] IS NULL OR job.type = ANY($4::text[]))
        AND NOT EXISTS (
            SELECT 1 FROM queue
            WHERE queue.name = job.queue AND queue.paused_at IS NOT NULL
                AND (queue.resume_at IS NULL OR queue.resume_at > (SELECT now FROM clock))
        )
    ORDER BY job.run_at, job.priority DESC, job.id
    LIMIT $5::bigint
    FOR UPDATE OF job SKIP LOCKED
),
leased AS (
    UPDATE job
    SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = $6::text, boot = $7::text,
        started_at = run_at, lease_until = clock.now + $8::bigint, updated_at = clock.now
    FROM clock, chosen
    WHERE job.ctid = chosen.place
    RETURNING {job_columns}
),
remembered AS (
    INSERT INTO claim (claim_id, at, leases)
    SELECT $9::text, min(updated_at), json_agg(json_build_array(id, fence) ORDER BY run_at, priority DESC, id)
    FROM leased WHERE $9::text IS NOT NULL HAVING count(*) > 0
)
SELECT * FROM leased
