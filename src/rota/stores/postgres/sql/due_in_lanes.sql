-- The due jobs of several lanes, from each lane its share, by their places and held for us: how every statement begins
-- that takes jobs out of lanes. Steps over rows that others hold. Served by job_turn.
clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
lane AS MATERIALIZED (
    SELECT lane.*
    FROM unnest($2::text[], $3::text[], $4::text::bigint[], $5::text::bigint[]) AS lane (queue, type, floor, share)
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
)
