-- Stored limits, and claims of the jobs that they concern; see limits.py.

-- name: claim_conditions
-- The restrictions of a claim; see conditions_of_claim. The lanes by a loose index scan of rota_job_key.
WITH RECURSIVE clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
{keyed_lanes}
{conditions_of_claim}

-- name: lock_with_conditions
-- The same, and locks limits as lock_limits does: those that it got come last, each as a row of kind 5.
WITH RECURSIVE clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
{keyed_lanes},
locked AS MATERIALIZED (
    SELECT {limit_columns} FROM {schema}rota_limit WHERE name = ANY($2::text[]) ORDER BY name FOR UPDATE SKIP LOCKED
)
SELECT heeded.kind, heeded.name, locked.* FROM ({conditions_of_claim}) AS heeded LEFT JOIN locked ON false
UNION ALL
SELECT 5, '', locked.* FROM locked

-- name: lock_limits
-- Lock limits in the order of their names, without waiting: those that another claim holds are left out. By primary key.
SELECT {limit_columns} FROM {schema}rota_limit WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE SKIP LOCKED

-- name: make_key_limit
-- Store the row that is locked for all keys. It is locked then, unless another claim was faster.
INSERT INTO {schema}rota_limit (name, set_by, set_at) VALUES ('key:', '', 0) ON CONFLICT DO NOTHING

-- name: running_by_limit
-- Count the running jobs by queue, type and key. Served by rota_job_lease; reads all running jobs.
SELECT queue, type, concurrency_key, count(*)
FROM {schema}rota_job
WHERE state = 'running' AND lease_until > -9223372036854775808
GROUP BY queue, type, concurrency_key

-- name: running_and_pending
-- In one statement: running jobs by queue, type and key (0), as running_by_limit; the theoretical arrival times of the
-- rates of some limits (1), by primary key; and the first claimable jobs without a key of some lanes (2), as
-- pending_of_limited_lanes, no more than their queues and tasks have permits left.
WITH running AS MATERIALIZED (
    SELECT queue, type, concurrency_key, count(*) AS jobs
    FROM {schema}rota_job
    WHERE state = 'running' AND lease_until > -9223372036854775808
    GROUP BY queue, type, concurrency_key
)
SELECT 0, queue, type, concurrency_key, jobs, 0::bigint, 0::bigint FROM running
UNION ALL
SELECT 1, name, '', NULL, first_arrival, second_arrival, 0 FROM {schema}rota_rate WHERE name = ANY($7::text[])
UNION ALL
SELECT 2, lane.queue, lane.type, NULL, waiting.turn, waiting.id, waiting.priority
FROM (
    SELECT
        sought.queue, sought.type, greatest(0, least(
            sought.most,
            sought.of_queue - coalesce((SELECT sum(jobs) FROM running WHERE running.queue = sought.queue), 0)::bigint,
            sought.of_task - coalesce((SELECT sum(jobs) FROM running WHERE running.type = sought.type), 0)::bigint
        )) AS most
    FROM unnest($2::text[], $3::text[], $4::text::bigint[], $5::text::bigint[], $6::text::bigint[])
        AS sought (queue, type, most, of_queue, of_task)
    OFFSET 0
) AS lane, LATERAL (
    SELECT job.turn, job.id, job.priority
    FROM {schema}rota_job AS job
    WHERE job.state = 'pending' AND job.concurrency_key IS NULL AND job.queue = lane.queue AND job.type = lane.type
        AND job.run_at <= $1::bigint AND (job.expires_at IS NULL OR job.expires_at > $1::bigint)
    ORDER BY job.turn, job.id
    LIMIT lane.most
) AS waiting

-- name: pending_of_limited_lanes
-- The first claimable jobs without a key of some lanes, by turn. Served by rota_job_turn.
SELECT waiting.turn, waiting.id, waiting.priority, lane.queue, lane.type
FROM unnest($2::text[], $3::text[], $4::text::bigint[]) AS lane (queue, type, most), LATERAL (
    SELECT job.turn, job.id, job.priority
    FROM {schema}rota_job AS job
    WHERE job.state = 'pending' AND job.concurrency_key IS NULL AND job.queue = lane.queue AND job.type = lane.type
        AND job.run_at <= $1::bigint AND (job.expires_at IS NULL OR job.expires_at > $1::bigint)
    ORDER BY job.turn, job.id
    LIMIT lane.most
) AS waiting

-- name: lanes_with_keys
-- The lanes in which jobs with a key are pending. A loose index scan of rota_job_key.
WITH RECURSIVE {keyed_lanes}
SELECT queue, type FROM lane

-- name: keys_with_work
-- The keys of a lane that have pending jobs, those behind a key, each with its own limit, the times of its rates, and its
-- first claimable jobs by turn: a row for each, or one without a job. A loose index scan of rota_job_key, and primary
-- keys.
WITH RECURSIVE leap AS (
    (
        SELECT job.concurrency_key AS found
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NOT NULL
            AND job.queue = $1::text AND job.type = $2::text AND job.concurrency_key > $3::text
        ORDER BY job.concurrency_key
        LIMIT 1
    )
    UNION ALL
    SELECT following.found
    FROM leap, LATERAL (
        SELECT job.concurrency_key AS found
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NOT NULL
            AND job.queue = $1::text AND job.type = $2::text AND job.concurrency_key > leap.found
        ORDER BY job.concurrency_key
        LIMIT 1
    ) AS following
)
SELECT
    leap.found, {own_limit_columns}, rate.first_arrival, rate.second_arrival,
    waiting.turn, waiting.id, waiting.priority
FROM (SELECT found FROM leap LIMIT $4::bigint) AS leap
    LEFT JOIN {schema}rota_limit AS own ON own.name = CASE WHEN leap.found ^@ 'breaker:' THEN '' ELSE 'key:' END || leap.found
    LEFT JOIN {schema}rota_rate AS rate ON rate.name = 'key:' || leap.found
    LEFT JOIN LATERAL (
        SELECT job.turn, job.id, job.priority
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NOT NULL
            AND job.queue = $1::text AND job.type = $2::text AND job.concurrency_key = leap.found
            AND job.run_at <= $5::bigint AND (job.expires_at IS NULL OR job.expires_at > $5::bigint)
        ORDER BY job.turn, job.id
        LIMIT $6::bigint
    ) AS waiting ON true
ORDER BY leap.found, waiting.turn, waiting.id

-- name: pending_of_keys
-- The first claimable jobs of some keys of a lane, by turn. Served by rota_job_key.
SELECT waiting.turn, waiting.id, waiting.priority, sought.key
FROM unnest($4::text[], $5::text::bigint[]) AS sought (key, most), LATERAL (
    SELECT job.turn, job.id, job.priority
    FROM {schema}rota_job AS job
    WHERE job.state = 'pending' AND job.concurrency_key IS NOT NULL
        AND job.queue = $2::text AND job.type = $3::text AND job.concurrency_key = sought.key
        AND job.run_at <= $1::bigint AND (job.expires_at IS NULL OR job.expires_at > $1::bigint)
    ORDER BY job.turn, job.id
    LIMIT sought.most
) AS waiting

-- name: first_of_keys
-- The first unfinished jobs of some keys, by submission, as far as they are claimable in a lane. Served by
-- rota_job_sequence.
SELECT waiting.turn, waiting.id, waiting.priority, sought.key
FROM unnest($4::text[]) AS sought (key), LATERAL (
    SELECT job.turn, job.id, job.priority, job.state, job.queue, job.type, job.run_at, job.expires_at
    FROM {schema}rota_job AS job
    WHERE job.concurrency_key = sought.key
    ORDER BY job.id
    LIMIT 1
) AS waiting
WHERE waiting.state = 'pending' AND waiting.queue = $2::text AND waiting.type = $3::text
    AND waiting.run_at <= $1::bigint AND (waiting.expires_at IS NULL OR waiting.expires_at > $1::bigint)

-- name: wait_for_keys
-- Lock the row for all keys, and wait for a claim that holds it: no job of a key starts until the transaction ends.
SELECT 1 FROM {schema}rota_limit WHERE name = 'key:' FOR UPDATE

-- name: first_unfinished_of_key
-- The first unfinished job of a key, by submission. Served by rota_job_sequence.
SELECT id FROM {schema}rota_job WHERE concurrency_key = $1::text ORDER BY id LIMIT 1

-- name: due_jobs_of_keys
-- The running and pending jobs of some keys, by submission, and whether they were asked to stop. Served by
-- rota_job_sequence.
SELECT concurrency_key, queue, id, state, cancel_requested_at IS NOT NULL
FROM {schema}rota_job
WHERE concurrency_key = ANY($1::text[]) AND state || '' = ANY(ARRAY['pending', 'running'])
ORDER BY concurrency_key, id

-- name: claim_limited
-- Lease some pending jobs that limits allow to start, unless they were moved to another queue meanwhile, which has other
-- limits. Skips locked rows. By primary key: the state is compared in a way that no index can serve. Otherwise as
-- claim_lane.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM unnest($2::text::bigint[], $3::text[]) AS wanted (id, queue)
        JOIN {schema}rota_job AS job ON job.id = wanted.id AND job.queue || '' = wanted.queue
    WHERE job.state || '' = 'pending' AND $4::text IS NULL
    LIMIT $5::bigint
    FOR UPDATE OF job SKIP LOCKED
),
{lease_chosen}
SELECT * FROM leased

-- name: append_to_claim
-- Add leases to what a claim has leased before. By primary key.
UPDATE {schema}rota_claim SET leases = (leases::jsonb || $2::text::jsonb)::text WHERE claim_id = $1::text

-- name: arrivals
-- The theoretical arrival times of the rates of some limits. By primary key.
SELECT name, first_arrival, second_arrival FROM {schema}rota_rate WHERE name = ANY($1::text[])

-- name: save_arrivals
-- Store the theoretical arrival times of the rates of some limits. By primary key.
INSERT INTO {schema}rota_rate (name, first_arrival, second_arrival)
SELECT * FROM unnest($1::text[], $2::text::bigint[], $3::text::bigint[])
ON CONFLICT (name) DO UPDATE SET first_arrival = excluded.first_arrival, second_arrival = excluded.second_arrival

-- name: bring_arrivals_forward
-- Bring the times of the rates of limits between two names forward to the latest ones. By primary key.
UPDATE {schema}rota_rate
SET first_arrival = least(first_arrival, $3::bigint), second_arrival = least(second_arrival, $4::bigint)
WHERE name BETWEEN $1::text AND $2::text

-- name: delete_old_arrivals
-- Delete the times of rates that are past: they limit nothing. Skips those that a claim is just writing.
DELETE FROM {schema}rota_rate
WHERE name IN (
    SELECT name FROM {schema}rota_rate
    WHERE first_arrival <= $1::bigint AND second_arrival <= $1::bigint
    FOR UPDATE SKIP LOCKED
)

-- name: limits_by_name
-- Limits by name. By primary key.
SELECT {limit_columns} FROM {schema}rota_limit WHERE name = ANY($1::text[]) ORDER BY name

-- name: limits_after
-- A page of all limits by name. By primary key.
SELECT {limit_columns} FROM {schema}rota_limit WHERE name > $1::text AND name <> 'key:' ORDER BY name LIMIT $2::bigint

-- name: save_limit
-- Store what a limit allows; whether it is closed stays. By primary key.
INSERT INTO {schema}rota_limit (
    name, max_running, rate_limit, per_key_max_running, per_key_rate_limit, weight, ordering, on_full, app, set_by, set_at
)
VALUES (
    $1::text, $2::bigint, $3::text, $4::bigint, $5::text, $6::bigint, $7::text, $8::text,
    $9::text, $10::text, $11::bigint
)
ON CONFLICT (name) DO UPDATE
SET max_running = excluded.max_running, rate_limit = excluded.rate_limit,
    per_key_max_running = excluded.per_key_max_running, per_key_rate_limit = excluded.per_key_rate_limit,
    weight = excluded.weight, ordering = excluded.ordering, on_full = excluded.on_full,
    app = excluded.app, set_by = excluded.set_by, set_at = excluded.set_at

-- name: close_limit
-- Close a limit until a time, or open it with NULL; what it allows stays. By primary key.
INSERT INTO {schema}rota_limit (name, closed_until, reason, set_by, set_at)
VALUES ($1::text, $2::bigint, $3::text, $4::text, $5::bigint)
ON CONFLICT (name) DO UPDATE SET closed_until = excluded.closed_until, reason = excluded.reason

-- name: delete_empty_limit
-- Delete a limit that neither allows nor closes anything. By primary key.
DELETE FROM {schema}rota_limit
WHERE name = $1::text AND closed_until IS NULL AND max_running IS NULL AND rate_limit IS NULL
    AND per_key_max_running IS NULL AND per_key_rate_limit IS NULL AND weight IS NULL AND ordering IS NULL
    AND on_full IS NULL AND breaker IS NULL

-- name: clear_limit
-- Delete what a limit allows and closes, if its jobs wait for an open breaker as well. By primary key.
UPDATE {schema}rota_limit
SET max_running = NULL, rate_limit = NULL, per_key_max_running = NULL, per_key_rate_limit = NULL, weight = NULL,
    ordering = NULL, on_full = NULL, closed_until = NULL, reason = NULL, app = NULL
WHERE name = $1::text AND breaker IS NOT NULL

-- name: delete_limit
-- Delete a limit, unless its jobs wait for an open breaker. By primary key.
DELETE FROM {schema}rota_limit WHERE name = $1::text AND breaker IS NULL

-- name: holders_of_limit
-- Running jobs of a queue, a type or a key, the others being NULL, the longest first. Served by rota_job_lease; reads
-- all running jobs.
SELECT id
FROM {schema}rota_job
WHERE state = 'running' AND lease_until > -9223372036854775808 AND ($1::text IS NULL OR queue = $1::text)
    AND ($2::text IS NULL OR type = $2::text) AND ($3::text IS NULL OR concurrency_key = $3::text)
ORDER BY started_at, id

-- name: lanes_with_work
-- The lanes in which jobs without a key are pending. A loose index scan of rota_job_turn.
WITH RECURSIVE lane AS (
    (
        SELECT job.queue, job.type
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NULL
        ORDER BY job.queue, job.type
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.type
    FROM lane, LATERAL (
        SELECT job.queue, job.type
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NULL AND (job.queue, job.type) > (lane.queue, lane.type)
        ORDER BY job.queue, job.type
        LIMIT 1
    ) AS following
)
SELECT queue, type FROM lane

-- name: waiting_of_lane
-- Count the pending jobs without a key of a lane, up to a limit. Served by rota_job_turn.
SELECT count(*)
FROM (
    SELECT 1 FROM {schema}rota_job
    WHERE state = 'pending' AND concurrency_key IS NULL AND queue = $1::text AND type = $2::text
    LIMIT $3::bigint
) AS waiting

-- name: waiting_of_keyed_lane
-- Count the pending jobs with a key of a lane, of one key if it is given, up to a limit. Served by rota_job_key.
SELECT count(*)
FROM (
    SELECT 1 FROM {schema}rota_job
    WHERE state = 'pending' AND concurrency_key IS NOT NULL AND queue = $1::text AND type = $2::text
        AND concurrency_key >= coalesce($3::text, '') AND ($3::text IS NULL OR concurrency_key <= $3::text)
    LIMIT $4::bigint
) AS waiting
