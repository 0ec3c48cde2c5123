-- Parts that several statements share, written there as {name}.

-- name: clock
-- The server's time in microseconds. Read it once per statement: it goes on while the statement runs.
(extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: job_columns
-- All columns of a job, in the order in which rows.py reads them.
id, type, payload, queue, priority, state, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
backoff, delivery, timeout, expires_at, worker, boot, lease_until, started_at, finished_at, cancel_requested_at,
result, error, reason, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
schedule_id, fire_time

-- name: light_job_columns
-- The same without payload and result: most lists show neither, and they may have a megabyte.
id, type, 'null'::text, queue, priority, state, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
backoff, delivery, timeout, expires_at, worker, boot, lease_until, started_at, finished_at, cancel_requested_at,
NULL::text, error, reason, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
schedule_id, fire_time

-- name: claim_columns
-- The columns of a job that a claim returns. The rest is the same for all jobs of the claim, or NULL for nearly every
-- job: of a job that sets only its concurrency key, `more` has only that.
id, type, payload, queue, priority, run_at, created_at, fence, attempts, crashes, max_attempts, delivery, started_at,
CASE
    WHEN blockers <> 0 OR num_nonnulls(
        backoff, timeout, expires_at, cancel_requested_at, result, error, reason, idempotency_key, tags, meta,
        on_success, on_failure, parent_id, schedule_id, fire_time
    ) > 0
    THEN ROW(
        backoff, timeout, expires_at, cancel_requested_at, result, error, reason, idempotency_key, concurrency_key,
        tags, meta, blockers, on_success, on_failure, parent_id, schedule_id, fire_time
    )
    WHEN concurrency_key IS NOT NULL THEN ROW(concurrency_key)
END AS more, turn

-- name: schedule_columns
-- All columns of a schedule, in the order in which rows.py reads them.
id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app

-- name: limit_columns
-- All columns of a limit, in the order in which rows.py reads them.
name, max_running, rate_limit, per_key_max_running, per_key_rate_limit, weight, ordering, on_full, closed_until,
reason, app, set_by, set_at, breaker

-- name: own_limit_columns
-- The same columns of a joined limit `own`.
own.name, own.max_running, own.rate_limit, own.per_key_max_running, own.per_key_rate_limit, own.weight, own.ordering,
own.on_full, own.closed_until, own.reason, own.app, own.set_by, own.set_at, own.breaker

-- name: keyed_lanes
-- The lanes in which jobs with a key are pending. A loose index scan of rota_job_key.
lane AS (
    (
        SELECT job.queue, job.type
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NOT NULL
        ORDER BY job.queue, job.type
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.type
    FROM lane, LATERAL (
        SELECT job.queue, job.type
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NOT NULL AND (job.queue, job.type) > (lane.queue, lane.type)
        ORDER BY job.queue, job.type
        LIMIT 1
    ) AS following
)

-- name: conditions_of_claim
-- The restrictions of a claim: the time (0), paused queues (1), limits of queues and tasks (2), the lanes in which jobs
-- with a concurrency key wait (3), and whether the row for all keys is there (4). The limits by primary key. Expects
-- `clock` and the lanes of keyed_lanes.
SELECT 0 AS kind, now::text AS name FROM clock
UNION ALL
SELECT 1, name FROM {schema}rota_queue
WHERE paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > (SELECT now FROM clock))
UNION ALL
SELECT 2, name FROM {schema}rota_limit WHERE name >= 'q'
UNION ALL
SELECT 4, '' FROM {schema}rota_limit WHERE name = 'key:'
UNION ALL
SELECT 3, json_build_array(queue, type)::text FROM lane

-- name: has_no_limit
-- A job that no limit concerns. Others are claimed within their limits only: never handed over, ahead of time or
-- through a broker. By primary key of rota_limit.
job.concurrency_key IS NULL
AND NOT EXISTS (SELECT 1 FROM {schema}rota_limit AS limits WHERE limits.name = 'queue:' || job.queue)
AND NOT EXISTS (SELECT 1 FROM {schema}rota_limit AS limits WHERE limits.name = 'task:' || job.type)

-- name: limited_lanes
-- The names of all limits of queues and tasks. By primary key: names of keys come before.
SELECT name FROM {schema}rota_limit WHERE name >= 'q'

-- name: urgent_lanes
-- How many of the most urgent jobs of several lanes are in which lane; lanes with a limit are left out. Locks nothing. Served by rota_job_turn. With
-- many lanes, a few jobs of each are read first: no job behind as many of those as are requested is among the most
-- urgent, so no lane is read beyond that point. If there are too few of them, there is no such bound.
clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
limited AS MATERIALIZED ({limited_lanes}),
given AS MATERIALIZED (
    SELECT given.*
    FROM unnest($2::text[], $3::text[], $4::text::bigint[]) AS given (queue, type, floor)
    WHERE NOT EXISTS (
        SELECT 1 FROM {schema}rota_queue AS queue, clock
        WHERE queue.name = given.queue AND queue.paused_at IS NOT NULL
            AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
    )
    AND NOT EXISTS (SELECT 1 FROM limited WHERE limited.name = 'queue:' || given.queue)
    AND NOT EXISTS (SELECT 1 FROM limited WHERE limited.name = 'task:' || given.type)
),
horizon AS MATERIALIZED (
    SELECT waiting.turn, waiting.id
    FROM clock, given, LATERAL (
        SELECT job.turn, job.id
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NULL
            AND job.queue = given.queue AND job.type = given.type AND job.turn >= given.floor
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
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NULL
            AND job.queue = given.queue AND job.type = given.type AND job.turn >= given.floor
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

-- name: due_in_lanes
-- The due jobs of some lanes, the share of each lane, by physical row position, locked. Skips locked rows. Served by
-- rota_job_turn. Expects `clock` and `lane`.
chosen AS MATERIALIZED (
    SELECT waiting.place
    FROM clock, lane, LATERAL (
        SELECT job.ctid AS place
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NULL
            AND job.queue = lane.queue AND job.type = lane.type AND job.turn >= lane.floor
            AND job.run_at <= clock.now AND (job.expires_at IS NULL OR job.expires_at > clock.now)
        ORDER BY job.turn, job.id
        LIMIT lane.share
        FOR UPDATE SKIP LOCKED
    ) AS waiting
)

-- name: lease_chosen
-- Lease the chosen jobs: one more attempt and fence for each. A claim with an id is remembered, so that it can be
-- repeated. Expects `clock` and `chosen`.
leased AS (
    UPDATE {schema}rota_job AS job
    SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = $6::text, boot = $7::text,
        started_at = clock.now, lease_until = clock.now + $8::bigint, updated_at = clock.now
    FROM clock, chosen
    WHERE job.ctid = chosen.place
    RETURNING {claim_columns}
),
remembered AS (
    INSERT INTO {schema}rota_claim (claim_id, at, leases)
    SELECT $9::text, min(started_at), json_agg(json_build_array(id, fence) ORDER BY turn, id)
    FROM leased WHERE $9::text IS NOT NULL HAVING count(*) > 0
)

-- name: keep_claim_open
-- If a claim found nothing, leave it open for a while, so that a submitter may answer it with a new job; and delete
-- the previous open claim of this worker; the count shows whether it has been answered. See handoff.py. Expects `clock`
-- and `chosen`. The previous claim has another id than this one, or this one is not left open.
former AS (
    DELETE FROM {schema}rota_open_claim WHERE claim_id = $14::text RETURNING claim_id
),
stay AS (
    INSERT INTO {schema}rota_open_claim (claim_id, worker, boot, lanes, lease, since, until, sign, channel)
    SELECT
        $9::text, $6::text, $7::text, $10::text[], $8::bigint, clock.now, clock.now + $11::bigint, $12::bigint, $13::text
    FROM clock
    WHERE $11::bigint IS NOT NULL AND NOT EXISTS (SELECT 1 FROM chosen)
    ON CONFLICT (claim_id) DO NOTHING
)

-- name: workflow_node_columns
-- All columns that make a Node, in the order that workflow_rows.py expects.
node.workflow_id, node.position, node.name, node.job_id, node.parents, node.runs_after_failure, node.replaced_by,
node.is_skipped, node.state, node.reason, any_job.state, any_job.reason, any_job.type, any_job.queue, any_job.attempts,
any_job.created_at, any_job.started_at, any_job.finished_at, any_job.run_at

-- name: breaker_columns
-- All columns of a breaker, in the order in which breaker_rows.py reads them.
name, failures, counted, least, open_for, probes, tasks, is_open, is_forced, since, open_until, reason, set_by, opened,
version
