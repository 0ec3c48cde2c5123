-- Make jobs of some lanes queued, of each as many as there is room for, in the order of their turn. Steps over rows that
-- others hold. Served by job_turn, then by the rows' places, as claim_lanes.sql.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
lane AS MATERIALIZED (
    SELECT lane.*
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS lane (queue, type, floor, room)
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
        LIMIT lane.room
        FOR UPDATE SKIP LOCKED
    ) AS waiting
)
UPDATE job
SET state = 'queued', updated_at = clock.now
FROM clock, chosen
WHERE job.ctid = chosen.place
RETURNING job.id, job.queue, job.type, job.priority, job.turn, clock.now
