-- Lease jobs of one lane to a worker in the order of their turn. Steps over rows that others hold. Served by job_turn, then
-- by the rows' places: what moved meanwhile is left for the next time.
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
{lease_chosen}
SELECT * FROM leased
