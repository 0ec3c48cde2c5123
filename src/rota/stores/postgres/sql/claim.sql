-- Lease jobs of one lane to a worker in the order of their turn: one attempt and one fence more for each. Steps over
-- rows that others hold. Served by job_turn, then by the rows' places: what moved meanwhile is left for the next time.
-- A claim with a name is remembered, so that it can be repeated.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM clock, job
    WHERE job.state = 'pending' AND job.queue = $2::text AND job.type = $3::text AND job.turn >= $4::bigint
        AND job.run_at <= clock.now AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        AND NOT EXISTS (
            SELECT 1 FROM queue, clock
            WHERE queue.name = $2::text AND queue.paused_at IS NOT NULL
                AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
            OFFSET 0
        )
    ORDER BY job.turn, job.id
    LIMIT $5::bigint
    FOR UPDATE OF job SKIP LOCKED
),
leased AS (
    UPDATE job
    SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = $6::text, boot = $7::text,
        started_at = clock.now, lease_until = clock.now + $8::bigint, updated_at = clock.now
    FROM clock, chosen
    WHERE job.ctid = chosen.place
    RETURNING {claim_columns}
),
remembered AS (
    INSERT INTO claim (claim_id, at, leases)
    SELECT $9::text, min(started_at), json_agg(json_build_array(id, fence) ORDER BY turn, id)
    FROM leased WHERE $9::text IS NOT NULL HAVING count(*) > 0
)
SELECT * FROM leased
