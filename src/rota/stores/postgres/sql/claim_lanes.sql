-- Lease jobs of several lanes to a worker, from each lane its share. Otherwise as claim.sql.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
lane AS MATERIALIZED (
    SELECT lane.*
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS lane (queue, type, floor, share)
    WHERE NOT EXISTS (
        SELECT 1 FROM queue, clock
        WHERE queue.name = lane.queue AND queue.paused_at IS NOT NULL
            AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
    )
),
chosen AS MATERIALIZED (
    SELECT waiting.place
    FROM clock, lane, LATERAL (
        SELECT job.ctid AS place
        FROM job
        WHERE job.state = 'pending' AND job.queue = lane.queue AND job.type = lane.type AND job.turn >= lane.floor
            AND job.run_at <= clock.now AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        ORDER BY job.turn, job.id
        LIMIT lane.share
        FOR UPDATE SKIP LOCKED
    ) AS waiting
),
leased AS (
    UPDATE job
    SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = $6::text, boot = $7::text,
        started_at = clock.now, lease_until = clock.now + $8::bigint, updated_at = clock.now
    FROM clock, chosen
    WHERE job.ctid = chosen.place
    RETURNING {job_columns}, turn
),
remembered AS (
    INSERT INTO claim (claim_id, at, leases)
    SELECT $9::text, min(started_at), json_agg(json_build_array(id, fence) ORDER BY turn, id)
    FROM leased WHERE $9::text IS NOT NULL HAVING count(*) > 0
)
SELECT * FROM leased
