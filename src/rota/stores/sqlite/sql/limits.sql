-- name: limit_columns
-- All columns that make a Limit, in the order that rows.py expects.
name, max_running, rate_limit, per_key_max_running, per_key_rate_limit, weight, ordering, on_full, closed_until,
reason, app, set_by, set_at, breaker

-- name: own_limit_columns
-- The same columns of a joined limit `own`.
own.name, own.max_running, own.rate_limit, own.per_key_max_running, own.per_key_rate_limit, own.weight, own.ordering,
own.on_full, own.closed_until, own.reason, own.app, own.set_by, own.set_at, own.breaker

-- name: claim_conditions
-- Read the restrictions of a claim: paused queues (1), limits of queues and tasks (2), and whether jobs with a
-- concurrency key wait (3). The limits by primary key, the jobs by the first entry of rota_job_key (must be named).
SELECT 1, name FROM rota_queue WHERE paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > ?)
UNION ALL
SELECT 2, name FROM rota_limit WHERE name >= 'q'
UNION ALL
SELECT * FROM (
    SELECT 3, '' FROM rota_job INDEXED BY rota_job_key
    WHERE state = 'pending' AND concurrency_key IS NOT NULL
    LIMIT 1
)

-- name: limits_by_name
-- Select limits by name. By primary key.
SELECT {limit_columns} FROM rota_limit WHERE name IN (SELECT value FROM json_each(?)) ORDER BY name

-- name: limits_after
-- Select a page of all limits by name. By primary key.
SELECT {limit_columns} FROM rota_limit WHERE name > ? ORDER BY name LIMIT ?

-- name: save_limit
-- Store what a limit allows; whether it is closed stays. By primary key.
INSERT INTO rota_limit (
    name, max_running, rate_limit, per_key_max_running, per_key_rate_limit, weight, ordering, on_full, app, set_by, set_at
)
VALUES (
    :name, :max_running, :rate_limit, :per_key_max_running, :per_key_rate_limit, :weight, :ordering,
    :on_full, :app, :set_by, :now
)
ON CONFLICT (name) DO UPDATE
SET max_running = excluded.max_running, rate_limit = excluded.rate_limit,
    per_key_max_running = excluded.per_key_max_running, per_key_rate_limit = excluded.per_key_rate_limit,
    weight = excluded.weight, ordering = excluded.ordering, on_full = excluded.on_full,
    app = excluded.app, set_by = excluded.set_by, set_at = excluded.set_at

-- name: close_limit
-- Close a limit until a time, or open it with NULL; what it allows stays. By primary key.
INSERT INTO rota_limit (name, closed_until, reason, set_by, set_at)
VALUES (:name, :closed_until, :reason, :set_by, :now)
ON CONFLICT (name) DO UPDATE SET closed_until = excluded.closed_until, reason = excluded.reason

-- name: delete_empty_limit
-- Delete a limit that neither allows nor closes anything. By primary key.
DELETE FROM rota_limit
WHERE name = ? AND closed_until IS NULL AND max_running IS NULL AND rate_limit IS NULL
    AND per_key_max_running IS NULL AND per_key_rate_limit IS NULL AND weight IS NULL AND ordering IS NULL
    AND on_full IS NULL AND breaker IS NULL

-- name: clear_limit
-- Delete what a limit allows and closes, if its jobs wait for an open breaker as well. By primary key.
UPDATE rota_limit
SET max_running = NULL, rate_limit = NULL, per_key_max_running = NULL, per_key_rate_limit = NULL, weight = NULL,
    ordering = NULL, on_full = NULL, closed_until = NULL, reason = NULL, app = NULL
WHERE name = ? AND breaker IS NOT NULL

-- name: delete_limit
-- Delete a limit, unless its jobs wait for an open breaker. By primary key.
DELETE FROM rota_limit WHERE name = ? AND breaker IS NULL

-- name: arrivals
-- Read the theoretical arrival times of the rates of some limits. By primary key.
SELECT name, first_arrival, second_arrival FROM rota_rate WHERE name IN (SELECT value FROM json_each(?))

-- name: save_arrivals
-- Store the theoretical arrival times of the rates of a limit. By primary key.
INSERT INTO rota_rate (name, first_arrival, second_arrival) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET first_arrival = excluded.first_arrival, second_arrival = excluded.second_arrival

-- name: bring_arrivals_forward
-- Bring the times of the rates of limits between two names forward to the latest ones. By primary key.
UPDATE rota_rate
SET first_arrival = min(first_arrival, :first_arrival), second_arrival = min(second_arrival, :second_arrival)
WHERE name BETWEEN :first_name AND :last_name

-- name: delete_old_arrivals
-- Delete the times of rates that are past: they limit nothing.
DELETE FROM rota_rate WHERE first_arrival <= :before AND second_arrival <= :before

-- name: running_by_limit
-- Count the running jobs by queue, type and key. Index: rota_job_lease (must be named); reads all running jobs.
SELECT queue, type, concurrency_key, count(*)
FROM rota_job INDEXED BY rota_job_lease
WHERE state = 'running'
GROUP BY queue, type, concurrency_key

-- name: holders_of_limit
-- Select running jobs of a queue, a type or a key, the others being NULL. Index: rota_job_lease; reads all running jobs.
SELECT id
FROM rota_job INDEXED BY rota_job_lease
WHERE state = 'running' AND (:queue IS NULL OR queue = :queue) AND (:type IS NULL OR type = :type)
    AND (:key IS NULL OR concurrency_key = :key)
ORDER BY started_at, id
LIMIT :limit

-- name: next_queue_with_work
-- Find the next queue by name that has pending jobs without a key: one step of a loose index scan of rota_job_turn.
SELECT queue
FROM rota_job INDEXED BY rota_job_turn
WHERE state = 'pending' AND concurrency_key IS NULL AND queue > ?
ORDER BY queue
LIMIT 1

-- name: next_queue_with_keys
-- Find the next queue by name that has pending jobs with a key: one step of a loose index scan of rota_job_key.
SELECT queue
FROM rota_job INDEXED BY rota_job_key
WHERE state = 'pending' AND concurrency_key IS NOT NULL AND queue > ?
ORDER BY queue
LIMIT 1

-- name: next_type_with_keys
-- Find the next type by name that has pending jobs with a key: one step of a loose index scan of rota_job_key.
SELECT type
FROM rota_job INDEXED BY rota_job_key
WHERE state = 'pending' AND concurrency_key IS NOT NULL AND queue = ? AND type >= ?
ORDER BY type
LIMIT 1

-- name: keys_with_work
-- Find the keys of a queue and type that have pending jobs, those after a key, each with its own limit, the times of its
-- rates, and its first two claimable jobs by turn, NULL if there are none: a loose index scan of rota_job_key, and primary
-- keys.
WITH RECURSIVE leap (found) AS (
    SELECT (
        SELECT concurrency_key
        FROM rota_job INDEXED BY rota_job_key
        WHERE state = 'pending' AND concurrency_key IS NOT NULL
            AND queue = :queue AND type = :type AND concurrency_key > :after
        ORDER BY concurrency_key
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT concurrency_key
        FROM rota_job INDEXED BY rota_job_key
        WHERE state = 'pending' AND concurrency_key IS NOT NULL
            AND queue = :queue AND type = :type AND concurrency_key > leap.found
        ORDER BY concurrency_key
        LIMIT 1
    )
    FROM leap
    WHERE leap.found IS NOT NULL
)
SELECT
    leap.found, {own_limit_columns}, rate.first_arrival, rate.second_arrival,
    first.turn, first.id, first.priority, second.turn, second.id, second.priority
FROM (SELECT found FROM leap WHERE found IS NOT NULL LIMIT :limit) AS leap
    LEFT JOIN rota_limit AS own ON own.name = iif(substr(leap.found, 1, 8) = 'breaker:', '', 'key:') || leap.found
    LEFT JOIN rota_rate AS rate ON rate.name = 'key:' || leap.found
    LEFT JOIN rota_job AS first ON first.id = (
        SELECT id
        FROM rota_job INDEXED BY rota_job_key
        WHERE state = 'pending' AND concurrency_key IS NOT NULL
            AND queue = :queue AND type = :type AND concurrency_key = leap.found
            AND run_at <= :now AND (expires_at IS NULL OR expires_at > :now)
        ORDER BY turn, id
        LIMIT 1
    )
    LEFT JOIN rota_job AS second ON second.id = (
        SELECT id
        FROM rota_job INDEXED BY rota_job_key
        WHERE state = 'pending' AND concurrency_key IS NOT NULL
            AND queue = :queue AND type = :type AND concurrency_key = leap.found
            AND run_at <= :now AND (expires_at IS NULL OR expires_at > :now)
        ORDER BY turn, id
        LIMIT 1 OFFSET 1
    )
ORDER BY leap.found

-- name: pending_of_key
-- Select the first claimable jobs of a queue, type and key, by turn. Index: rota_job_key (must be named).
SELECT turn, id, priority
FROM rota_job INDEXED BY rota_job_key
WHERE state = 'pending' AND concurrency_key IS NOT NULL
    AND queue = ? AND type = ? AND concurrency_key = ? AND run_at <= ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY turn, id
LIMIT ?

-- name: first_of_key
-- Select the first unfinished job of a key, by submission, if it is claimable in a lane. Index: rota_job_sequence (must
-- be named).
SELECT turn, id, priority
FROM (
    SELECT * FROM rota_job INDEXED BY rota_job_sequence
    WHERE concurrency_key = :key AND finished_at IS NULL
    ORDER BY id
    LIMIT 1
)
WHERE state = 'pending' AND queue = :queue AND type = :type
    AND run_at <= :now AND (expires_at IS NULL OR expires_at > :now)

-- name: first_unfinished_of_key
-- Select the first unfinished job of a key, by submission. Index: rota_job_sequence (must be named).
SELECT id FROM rota_job INDEXED BY rota_job_sequence
WHERE concurrency_key = ? AND finished_at IS NULL
ORDER BY id
LIMIT 1

-- name: due_jobs_of_key
-- Select the running and pending jobs of a key, by submission, and whether they were asked to stop. Index:
-- rota_job_sequence (must be named).
SELECT queue, id, state, cancel_requested_at IS NOT NULL
FROM rota_job INDEXED BY rota_job_sequence
WHERE concurrency_key = ? AND finished_at IS NULL AND state IN ('pending', 'running')
ORDER BY id

-- name: pending_of_limited_lane
-- Select the first claimable jobs without a key of a queue and type, by turn. Index: rota_job_turn (must be named).
SELECT turn, id, priority
FROM rota_job INDEXED BY rota_job_turn
WHERE state = 'pending' AND concurrency_key IS NULL
    AND queue = ? AND type = ? AND run_at <= ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY turn, id
LIMIT ?

-- name: waiting_of_lane
-- Count the pending jobs without a key of a queue and type, up to a limit. Index: rota_job_turn (must be named).
SELECT count(*)
FROM (
    SELECT 1 FROM rota_job INDEXED BY rota_job_turn
    WHERE state = 'pending' AND concurrency_key IS NULL AND queue = ? AND type = ?
    LIMIT ?
)

-- name: waiting_of_keyed_lane
-- Count the pending jobs with a key of a queue and type, up to a limit. Index: rota_job_key (must be named).
SELECT count(*)
FROM (
    SELECT 1 FROM rota_job INDEXED BY rota_job_key
    WHERE state = 'pending' AND concurrency_key IS NOT NULL AND queue = ? AND type = ?
    LIMIT ?
)

-- name: waiting_of_key
-- Count the pending jobs of a queue, type and key, up to a limit. Index: rota_job_key (must be named).
SELECT count(*)
FROM (
    SELECT 1 FROM rota_job INDEXED BY rota_job_key
    WHERE state = 'pending' AND concurrency_key IS NOT NULL AND queue = ? AND type = ? AND concurrency_key = ?
    LIMIT ?
)
