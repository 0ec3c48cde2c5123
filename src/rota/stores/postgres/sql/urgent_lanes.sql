-- How many of the most urgent jobs of some lanes stand in which of them. Holds nothing. Served by job_turn. Of many lanes
-- first a few jobs each are read: nothing behind as many of those as are wanted is among the most urgent, so that no lane
-- is read beyond that. Where that gives too few, there is no such bound.
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
horizon AS MATERIALIZED (
    SELECT waiting.turn, waiting.id
    FROM clock, given, LATERAL (
        SELECT job.turn, job.id
        FROM job
        WHERE job.state = 'pending' AND job.queue = given.queue AND job.type = given.type AND job.turn >= given.floor
            AND job.run_at <= clock.now AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        ORDER BY job.turn, job.id
        LIMIT CASE
            WHEN $5::bigint > 2 AND cardinality($2::text[]) > 8
            THEN greatest(2 * $5::bigint / cardinality($2::text[]), 1)
            ELSE 0
        END
    ) AS waiting
    ORDER BY waiting.turn, waiting.id
    LIMIT 1
    OFFSET $5::bigint - 1
),
urgent AS (
    SELECT given.queue, given.type, given.floor
    FROM clock, given, LATERAL (
        SELECT job.turn, job.id
        FROM job
        WHERE job.state = 'pending' AND job.queue = given.queue AND job.type = given.type AND job.turn >= given.floor
            AND job.run_at <= clock.now AND (job.expires_at IS NULL OR job.expires_at > clock.now)
            AND (job.turn, job.id) <= (
                coalesce((SELECT turn FROM horizon), 9223372036854775807),
                coalesce((SELECT id FROM horizon), 9223372036854775807)
            )
        ORDER BY job.turn, job.id
        LIMIT $5::bigint
    ) AS waiting
    ORDER BY waiting.turn, waiting.id
    LIMIT $5::bigint
),
lane AS MATERIALIZED (
    SELECT queue, type, floor, count(*) AS share FROM urgent GROUP BY queue, type, floor
)
