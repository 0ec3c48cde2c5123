-- Claims, renewals, and what a running attempt reports.

-- name: claim_lane
-- Lease jobs of one lane to a worker in the order of their turn, none if the lane has a limit. Skips locked rows. Served
-- by rota_job_turn, then by physical row position: a row that moved meanwhile is left for the next claim.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM clock, {schema}rota_job AS job
    WHERE job.state = 'pending' AND job.concurrency_key IS NULL
        AND job.queue = $2::text AND job.type = $3::text AND job.turn >= $4::bigint
        AND job.run_at <= clock.now AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        AND NOT EXISTS (
            SELECT 1 FROM {schema}rota_queue AS queue, clock
            WHERE queue.name = $2::text AND queue.paused_at IS NOT NULL
                AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
            OFFSET 0
        )
        AND NOT EXISTS (
            SELECT 1 FROM {schema}rota_limit AS limits
            WHERE limits.name = ANY(ARRAY['queue:' || $2::text, 'task:' || $3::text])
            OFFSET 0
        )
    ORDER BY job.turn, job.id
    LIMIT $5::bigint
    FOR UPDATE OF job SKIP LOCKED
),
{lease_chosen}
SELECT * FROM leased

-- name: claim_lanes
-- Lease the most urgent jobs of several lanes to a worker: first counts, without locks, how they are spread, then
-- takes from each lane its share. If other workers took all of these meanwhile, it returns one row of NULLs; if there
-- was nothing, no row. The last column shows whether the worker's previous claim was still open, if that was requested;
-- if it was not, there is always a row. Otherwise as claim_lane.
WITH {urgent_lanes},
{due_in_lanes},
{lease_chosen},
{keep_claim_open}
SELECT leased.*, $14::text IS NULL OR EXISTS (SELECT 1 FROM former)
FROM (
    SELECT 1 FROM lane
    UNION ALL
    SELECT 1 WHERE $14::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM former)
    LIMIT 1
) AS something
LEFT JOIN leased ON true

-- name: claim_ahead
-- Lease jobs to a worker ahead of their run time, the earliest first, then the most urgent. Served by rota_job_time,
-- then by physical row position; only jobs of one time are sorted. The time is a subquery, which makes it a bound of
-- the index scan. At-most-once jobs are left out: if their worker died while it held them, they would be dead without
-- having begun. Otherwise as claim_lane.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM {schema}rota_job AS job
    WHERE job.state IN ('scheduled', 'retrying')
        AND job.run_at > (SELECT now FROM clock) AND job.run_at <= (SELECT now + $2::bigint FROM clock)
        AND job.delivery <> 'at_most_once' AND {has_no_limit}
        AND (job.expires_at IS NULL OR job.expires_at > job.run_at)
        AND job.queue = ANY($3::text[]) AND ($4::text[] IS NULL OR job.type = ANY($4::text[]))
        AND NOT EXISTS (
            SELECT 1 FROM {schema}rota_queue AS queue
            WHERE queue.name = job.queue AND queue.paused_at IS NOT NULL
                AND (queue.resume_at IS NULL OR queue.resume_at > (SELECT now FROM clock))
        )
    ORDER BY job.run_at, job.priority DESC, job.id
    LIMIT $5::bigint
    FOR UPDATE OF job SKIP LOCKED
),
leased AS (
    UPDATE {schema}rota_job AS job
    SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = $6::text, boot = $7::text,
        started_at = run_at, lease_until = clock.now + $8::bigint, updated_at = clock.now
    FROM clock, chosen
    WHERE job.ctid = chosen.place
    RETURNING {job_columns}
),
remembered AS (
    INSERT INTO {schema}rota_claim (claim_id, at, leases)
    SELECT $9::text, min(updated_at), json_agg(json_build_array(id, fence) ORDER BY run_at, priority DESC, id)
    FROM leased WHERE $9::text IS NOT NULL HAVING count(*) > 0
)
SELECT * FROM leased

-- name: claim_by_id
-- Lease those jobs handed over by a broker that may be claimed. By primary key: the state is compared in a way that no
-- index can serve. Otherwise as claim_lane.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM clock, unnest($2::text::bigint[]) AS wanted (id) JOIN {schema}rota_job AS job ON job.id = wanted.id
    WHERE job.state || '' = ANY(ARRAY['pending', 'queued']) AND job.run_at <= clock.now
        AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        AND job.queue = ANY($3::text[]) AND ($4::text[] IS NULL OR job.type = ANY($4::text[]))
        AND NOT EXISTS (
            SELECT 1 FROM {schema}rota_queue AS queue
            WHERE queue.name = job.queue AND queue.paused_at IS NOT NULL
                AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
        )
        AND {has_no_limit}
    ORDER BY job.turn, job.id
    LIMIT $5::bigint
    FOR UPDATE OF job SKIP LOCKED
),
{lease_chosen}
SELECT * FROM leased

-- name: busy_lanes
-- The lanes that hold the most urgent jobs. Locks nothing. Served by rota_job_turn.
WITH {urgent_lanes}
SELECT queue, type FROM lane

-- name: leases_of_claim
-- What an earlier claim leased. By primary key.
SELECT leases FROM {schema}rota_claim WHERE claim_id = $1::text

-- name: next_types
-- The next type with pending jobs in each gap between the known types: one step of a loose index scan of
-- rota_job_turn.
SELECT gap.queue, found.type
FROM unnest($1::text[], $2::text[], $3::text[]) AS gap (queue, first, beyond), LATERAL (
    SELECT job.type
    FROM {schema}rota_job AS job
    WHERE job.state = 'pending' AND job.concurrency_key IS NULL
        AND job.queue = gap.queue AND job.type >= gap.first AND job.type < gap.beyond
    ORDER BY job.type
    LIMIT 1
) AS found

-- name: lowest_turn_below
-- The lowest turn in a lane below a given turn. Served by rota_job_turn.
SELECT turn
FROM {schema}rota_job
WHERE state = 'pending' AND concurrency_key IS NULL AND queue = $1::text AND type = $2::text AND turn < $3::bigint
ORDER BY turn
LIMIT 1

-- name: renew_leases
-- Extend the leases that still hold. By primary key.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now)
UPDATE {schema}rota_job AS job SET lease_until = clock.now + renewal.lease
FROM clock, unnest($2::text::bigint[], $3::text::bigint[], $4::text::bigint[]) AS renewal (id, fence, lease)
WHERE job.id = renewal.id AND job.fence = renewal.fence AND job.lease_until IS NOT NULL
RETURNING job.id, job.lease_until, job.cancel_requested_at IS NOT NULL

-- name: save_progress
-- Store progress and log tail of running attempts. By primary key.
INSERT INTO {schema}rota_attempt AS attempt (job_id, fence, worker, boot, started_at, progress, log_tail)
SELECT job.id, job.fence, job.worker, job.boot, job.started_at, note.progress, note.log_tail
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS note (id, progress, log_tail)
JOIN {schema}rota_job AS job ON job.id = note.id
ON CONFLICT (job_id, fence) DO UPDATE
SET progress = coalesce(excluded.progress, attempt.progress), log_tail = coalesce(excluded.log_tail, attempt.log_tail)
