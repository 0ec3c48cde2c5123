-- How many of the most urgent jobs of some lanes stand in which of them. Holds nothing. Served by job_turn.
clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
given AS MATERIALIZED (
    SELECT given.*
    FROM unnest($2::text[], $3::text[], $4::text::bigint[]) AS given (queue, type, floor)
    WHERE NOT EXISTS (
        SELECT 1 FROM queue, clock
        WHERE queue.name = given.queue AND queue.paused_at IS NOT NULL
            AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
    )
),
urgent AS (
    SELECT given.queue, given.type, given.floor
    FROM clock, given, LATERAL (
        SELECT job.turn, job.id
        FROM job
        WHERE job.state = 'pending' AND job.queue = given.queue AND job.type = given.type AND job.turn >= given.floor
            AND job.run_at <= clock.now AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        ORDER BY job.turn, job.id
        LIMIT $5::bigint
    ) AS waiting
    ORDER BY waiting.turn, waiting.id
    LIMIT $5::bigint
),
lane AS MATERIALIZED (
    SELECT queue, type, floor, count(*) AS share FROM urgent GROUP BY queue, type, floor
)
