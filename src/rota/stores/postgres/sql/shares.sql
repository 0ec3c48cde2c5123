-- Say how many of the most urgent jobs of some lanes come from which lane. Served by job_turn. Holds nothing.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
lane AS MATERIALIZED (
    SELECT lane.*
    FROM unnest($2::text[], $3::text[], $4::text::bigint[]) AS lane (queue, type, floor)
    WHERE NOT EXISTS (
        SELECT 1 FROM queue, clock
        WHERE queue.name = lane.queue AND queue.paused_at IS NOT NULL
            AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
    )
),
urgent AS (
    SELECT lane.queue, lane.type
    FROM clock, lane, LATERAL (
        SELECT job.turn, job.id
        FROM job
        WHERE job.state = 'pending' AND job.queue = lane.queue AND job.type = lane.type AND job.turn >= lane.floor
            AND job.run_at <= clock.now AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        ORDER BY job.turn, job.id
        LIMIT $5::bigint
    ) AS waiting
    ORDER BY waiting.turn, waiting.id
    LIMIT $5::bigint
)
SELECT queue, type, count(*) FROM urgent GROUP BY queue, type
