-- The due jobs of some lanes, from each its share, by their places and held for us. Steps over rows that others hold.
-- Served by job_turn. What comes before says what `clock` and `lane` are.
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
