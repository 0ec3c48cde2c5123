-- Lease those of the jobs that a broker handed over that may be claimed. By primary key: the state is asked in a way that
-- no index can answer. Otherwise as claim.sql.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM clock, unnest($2::text::bigint[]) AS wanted (id) JOIN job ON job.id = wanted.id
    WHERE job.state || '' = ANY(ARRAY['pending', 'queued']) AND job.run_at <= clock.now
        AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        AND job.queue = ANY($3::text[]) AND ($4::text[] IS NULL OR job.type = ANY($4::text[]))
        AND NOT EXISTS (
            SELECT 1 FROM queue
            WHERE queue.name = job.queue AND queue.paused_at IS NOT NULL
                AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
        )
    ORDER BY job.turn, job.id
    LIMIT $5::bigint
    FOR UPDATE OF job SKIP LOCKED
),
{lease_chosen}
SELECT * FROM leased
