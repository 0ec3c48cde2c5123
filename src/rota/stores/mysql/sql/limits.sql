-- name: limit_columns
-- Columns of a limit, in the order in which rows.py reads them.
name, max_running, rate_limit, per_key_max_running, per_key_rate_limit, weight, ordering, on_full, closed_until,
reason, app, set_by, set_at, breaker

-- name: own_limit_columns
-- The same columns of a joined limit `own`.
own.name, own.max_running, own.rate_limit, own.per_key_max_running, own.per_key_rate_limit, own.weight, own.ordering,
own.on_full, own.closed_until, own.reason, own.app, own.set_by, own.set_at, own.breaker

-- name: claim_conditions
-- Read the restrictions of a claim: paused queues (1), limits of queues and tasks (2), whether there are unfinished
-- jobs with a concurrency key (3), and whether the row for all keys is there (4). Locks nothing. Primary keys.
SELECT 1, name FROM rota_queue WHERE paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s)
UNION ALL
SELECT 2, name FROM rota_limit WHERE name >= 'q'
UNION ALL
(SELECT 3, '' FROM rota_sequence LIMIT 1)
UNION ALL
SELECT 4, '' FROM rota_limit WHERE name = 'key:';

-- name: lock_limits
-- Lock limits in the order of their names, without waiting: those that another claim holds are left out. Primary key.
SELECT {limit_columns} FROM rota_limit FORCE INDEX (PRIMARY)
WHERE name IN %(names)s
ORDER BY name
FOR UPDATE SKIP LOCKED;

-- name: make_key_limit
-- Store the row that is locked for all keys.
INSERT IGNORE INTO rota_limit (name, set_by, set_at) VALUES ('key:', '', 0);

-- name: running_by_limit
-- Count the running jobs by queue, type and key. Reads all leases, and their jobs by primary key.
SELECT job.queue, job.type, job.concurrency_key, count(*)
FROM rota_lease AS lease STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
GROUP BY job.queue, job.type, job.concurrency_key;

-- name: peek_limited_lane
-- Read the first claimable jobs without a key of a lane, by turn, with the number of the lane. Locks nothing. limits.py
-- repeats this for each lane (UNION ALL). Primary keys of rota_ready and rota_job.
SELECT :number, ready.turn, ready.id, job.priority
FROM rota_ready AS ready FORCE INDEX (PRIMARY) STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = ready.id
WHERE ready.queue = %s AND ready.type = %s AND ready.concurrency_key = %s
    AND ready.run_at <= %s AND (ready.expires_at IS NULL OR ready.expires_at > %s)
ORDER BY ready.turn, ready.id
LIMIT %s;

-- name: lane_has_keys
-- Read the number of a lane if jobs with a key are pending in it. limits.py repeats this for each lane (UNION ALL).
-- Primary key of rota_ready.
SELECT :number FROM rota_ready FORCE INDEX (PRIMARY) WHERE queue = %s AND type = %s AND concurrency_key > '' LIMIT 1;

-- name: next_type
-- Find the next type, in the order of names, with pending jobs in a queue: one step of a loose index scan. Primary key
-- of rota_ready.
SELECT type FROM rota_ready WHERE queue = %(queue)s AND type >= %(from_type)s ORDER BY type LIMIT 1;

-- name: next_queue
-- Find the next queue, in the order of names, with pending jobs: one step of a loose index scan. Primary key of
-- rota_ready.
SELECT queue FROM rota_ready WHERE queue > %(after)s ORDER BY queue LIMIT 1;

-- name: keys_with_work
-- Read the keys of a lane that have pending jobs, those behind a key, each with its own limit, the times of its rates, and
-- its first two claimable jobs by turn, NULL if there are none. Primary keys; of rota_ready a loose index scan if keys
-- have many jobs. The limit is repeated so that the jobs are found first, and then read by their ids.
SELECT
    waiting.concurrency_key, {own_limit_columns}, rate.first_arrival, rate.second_arrival,
    first.turn, first.id, first.priority, second.turn, second.id, second.priority
FROM (
    SELECT
        seen.concurrency_key,
        (
            SELECT ready.id FROM rota_ready AS ready FORCE INDEX (PRIMARY)
            WHERE ready.queue = %(queue)s AND ready.type = %(type)s AND ready.concurrency_key = seen.concurrency_key
                AND ready.run_at <= %(now)s AND (ready.expires_at IS NULL OR ready.expires_at > %(now)s)
            ORDER BY ready.turn, ready.id
            LIMIT 1
        ) AS first_id,
        (
            SELECT ready.id FROM rota_ready AS ready FORCE INDEX (PRIMARY)
            WHERE ready.queue = %(queue)s AND ready.type = %(type)s AND ready.concurrency_key = seen.concurrency_key
                AND ready.run_at <= %(now)s AND (ready.expires_at IS NULL OR ready.expires_at > %(now)s)
            ORDER BY ready.turn, ready.id
            LIMIT 1 OFFSET 1
        ) AS second_id
    FROM (
        SELECT concurrency_key
        FROM rota_ready FORCE INDEX (PRIMARY)
        WHERE queue = %(queue)s AND type = %(type)s AND concurrency_key > %(after)s
        GROUP BY concurrency_key
        ORDER BY concurrency_key
        LIMIT %(limit)s
    ) AS seen
    LIMIT %(limit)s
) AS waiting
    LEFT JOIN rota_limit AS own FORCE INDEX (PRIMARY)
    ON own.name = concat(IF(left(waiting.concurrency_key, 8) = 'breaker:', '', 'key:'), waiting.concurrency_key)
    LEFT JOIN rota_rate AS rate FORCE INDEX (PRIMARY) ON rate.name = concat('key:', waiting.concurrency_key)
    LEFT JOIN rota_job AS first FORCE INDEX (PRIMARY) ON first.id = waiting.first_id
    LEFT JOIN rota_job AS second FORCE INDEX (PRIMARY) ON second.id = waiting.second_id
ORDER BY waiting.concurrency_key;

-- name: first_of_key
-- Read the first unfinished job of a key, by submission, if it is claimable in a lane, with the number of the key.
-- limits.py repeats this for each key (UNION ALL). Primary keys of rota_sequence, rota_job and rota_ready.
SELECT :number, ready.turn, ready.id, job.priority
FROM (SELECT id FROM rota_sequence FORCE INDEX (PRIMARY) WHERE concurrency_key = %s ORDER BY id LIMIT 1) AS first
    STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = first.id
    STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
    ON ready.queue = job.queue AND ready.type = job.type AND ready.concurrency_key = job.concurrency_key
    AND ready.turn = job.turn AND ready.id = job.id
WHERE job.queue = %s AND job.type = %s
    AND ready.run_at <= %s AND (ready.expires_at IS NULL OR ready.expires_at > %s);

-- name: wait_for_keys
-- Lock the row for all keys, and wait for a claim that holds it: no job of a key starts until the transaction ends.
SELECT 1 FROM rota_limit WHERE name = 'key:' FOR UPDATE;

-- name: first_unfinished_of_key
-- Read the first unfinished job of a key, by submission. Primary key.
SELECT id FROM rota_sequence FORCE INDEX (PRIMARY) WHERE concurrency_key = %(key)s ORDER BY id LIMIT 1;

-- name: due_jobs_of_keys
-- Read the running and pending jobs of some keys, by submission, and whether they were asked to stop. Primary keys of
-- rota_sequence, rota_job and rota_lease.
SELECT
    sequence.concurrency_key, job.queue, job.id, IF(lease.id IS NULL, job.state, 'running'),
    lease.cancel_requested_at IS NOT NULL
FROM rota_sequence AS sequence FORCE INDEX (PRIMARY)
    STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = sequence.id
    LEFT JOIN rota_lease AS lease FORCE INDEX (PRIMARY) ON lease.id = job.id
WHERE sequence.concurrency_key IN %(keys)s AND (lease.id IS NOT NULL OR job.state = 'pending')
ORDER BY sequence.concurrency_key, job.id;

-- name: lock_limited
-- Lock some pending jobs of limited lanes and keys, skipping jobs that are gone or locked. Primary key of rota_ready, by
-- keys in a JSON table.
SELECT ready.id
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    queue VARCHAR(255) COLLATE :collation PATH '$[0]',
    type VARCHAR(255) COLLATE :collation PATH '$[1]',
    concurrency_key VARCHAR(200) COLLATE :collation PATH '$[2]',
    turn BIGINT PATH '$[3]',
    id BIGINT PATH '$[4]'
)) AS sought
    STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
    ON ready.queue = sought.queue AND ready.type = sought.type AND ready.concurrency_key = sought.concurrency_key
    AND ready.turn = sought.turn AND ready.id = sought.id
FOR UPDATE SKIP LOCKED;

-- name: delete_limited
-- Delete locked pending jobs of limited lanes and keys. Primary key of rota_ready, by keys in a JSON table.
DELETE ready
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    queue VARCHAR(255) COLLATE :collation PATH '$[0]',
    type VARCHAR(255) COLLATE :collation PATH '$[1]',
    concurrency_key VARCHAR(200) COLLATE :collation PATH '$[2]',
    turn BIGINT PATH '$[3]',
    id BIGINT PATH '$[4]'
)) AS gone
    STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
    ON ready.queue = gone.queue AND ready.type = gone.type AND ready.concurrency_key = gone.concurrency_key
    AND ready.turn = gone.turn AND ready.id = gone.id;

-- name: delete_sequences
-- Delete unfinished jobs of some concurrency keys. Primary key of rota_sequence, by keys in a JSON table.
DELETE sequence
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    concurrency_key VARCHAR(200) COLLATE :collation PATH '$[0]', id BIGINT PATH '$[1]'
)) AS gone
    STRAIGHT_JOIN rota_sequence AS sequence FORCE INDEX (PRIMARY)
    ON sequence.concurrency_key = gone.concurrency_key AND sequence.id = gone.id;

-- name: arrivals
-- Read the theoretical arrival times of the rates of some limits. Primary key.
SELECT name, first_arrival, second_arrival FROM rota_rate WHERE name IN %(names)s;

-- name: save_arrivals
-- Store the theoretical arrival times of the rates of a limit. Primary key.
INSERT INTO rota_rate (name, first_arrival, second_arrival) VALUES (%s, %s, %s)
ON DUPLICATE KEY UPDATE first_arrival = VALUES(first_arrival), second_arrival = VALUES(second_arrival);

-- name: bring_arrivals_forward
-- Bring the times of the rates of limits between two names forward to the latest ones. Primary key.
UPDATE rota_rate
SET first_arrival = least(first_arrival, %(first_arrival)s), second_arrival = least(second_arrival, %(second_arrival)s)
WHERE name BETWEEN %(first_name)s AND %(last_name)s;

-- name: old_arrivals
-- Lock the times of rates that are past: they limit nothing. Skips those that a claim is just writing.
SELECT name FROM rota_rate WHERE first_arrival <= %(now)s AND second_arrival <= %(now)s LIMIT 500 FOR UPDATE SKIP LOCKED;

-- name: delete_arrivals
-- Delete the times of rates. Primary key.
DELETE FROM rota_rate WHERE name IN %(names)s;

-- name: limits_by_name
-- Read limits by name. Primary key.
SELECT {limit_columns} FROM rota_limit WHERE name IN %(names)s ORDER BY name;

-- name: limits_after
-- Read a page of all limits by name. Primary key.
SELECT {limit_columns} FROM rota_limit WHERE name > %(after)s AND name <> 'key:' ORDER BY name LIMIT %(limit)s;

-- name: save_limit
-- Store what a limit allows; whether it is closed stays. Primary key.
INSERT INTO rota_limit (
    name, max_running, rate_limit, per_key_max_running, per_key_rate_limit, weight, ordering, on_full, app, set_by, set_at
) VALUES (
    %(name)s, %(max_running)s, %(rate_limit)s, %(per_key_max_running)s, %(per_key_rate_limit)s, %(weight)s,
    %(ordering)s, %(on_full)s, %(app)s, %(set_by)s, %(now)s
)
ON DUPLICATE KEY UPDATE
    max_running = VALUES(max_running), rate_limit = VALUES(rate_limit),
    per_key_max_running = VALUES(per_key_max_running), per_key_rate_limit = VALUES(per_key_rate_limit),
    weight = VALUES(weight), ordering = VALUES(ordering), on_full = VALUES(on_full), app = VALUES(app), set_by = VALUES(set_by),
    set_at = VALUES(set_at);

-- name: close_limit
-- Close a limit until a time, or open it with NULL; what it allows stays. Primary key.
INSERT INTO rota_limit (name, closed_until, reason, set_by, set_at)
VALUES (%(name)s, %(closed_until)s, %(reason)s, %(set_by)s, %(now)s)
ON DUPLICATE KEY UPDATE closed_until = VALUES(closed_until), reason = VALUES(reason);

-- name: delete_empty_limit
-- Delete a limit that neither allows nor closes anything. Primary key.
DELETE FROM rota_limit
WHERE name = %(name)s AND closed_until IS NULL AND max_running IS NULL AND rate_limit IS NULL
    AND per_key_max_running IS NULL AND per_key_rate_limit IS NULL AND weight IS NULL AND ordering IS NULL
    AND on_full IS NULL AND breaker IS NULL;

-- name: clear_limit
-- Delete what a limit allows and closes, if its jobs wait for an open breaker as well. By primary key.
UPDATE rota_limit
SET max_running = NULL, rate_limit = NULL, per_key_max_running = NULL, per_key_rate_limit = NULL, weight = NULL,
    ordering = NULL, on_full = NULL, closed_until = NULL, reason = NULL, app = NULL
WHERE name = %(name)s AND breaker IS NOT NULL;

-- name: delete_limit
-- Delete a limit, unless its jobs wait for an open breaker. By primary key.
DELETE FROM rota_limit WHERE name = %(name)s AND breaker IS NULL;

-- name: holders_of_limit
-- Read the running jobs of a queue, a type or a key, the others being NULL, the longest first. Reads all leases.
SELECT lease.id
FROM rota_lease AS lease STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
WHERE (%(queue)s IS NULL OR job.queue = %(queue)s) AND (%(type)s IS NULL OR job.type = %(type)s)
    AND (%(key)s IS NULL OR job.concurrency_key = %(key)s)
ORDER BY lease.started_at, lease.id;

-- name: waiting_of_lane
-- Count the pending jobs of a lane, with and without a key, up to a limit. Primary key of rota_ready.
SELECT count(*)
FROM (
    SELECT 1 FROM rota_ready WHERE queue = %(queue)s AND type = %(type)s LIMIT %(limit)s
) AS waiting;

-- name: waiting_of_key
-- Count the pending jobs of a key in a lane, up to a limit. Primary key of rota_ready.
SELECT count(*)
FROM (
    SELECT 1 FROM rota_ready WHERE queue = %(queue)s AND type = %(type)s AND concurrency_key = %(key)s LIMIT %(limit)s
) AS waiting;
