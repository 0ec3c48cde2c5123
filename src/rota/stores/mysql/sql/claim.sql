-- name: has_work
-- Read the server time, and 1 if there may be pending jobs of these queues and types (they may not be due, or may be
-- locked by another claim). Locks nothing. Primary key of rota_ready.
SELECT
    ({server_time}),
    (SELECT 1 FROM rota_ready WHERE queue IN %(queues)s AND (%(takes_all)s OR type IN %(types)s) LIMIT 1);

-- name: next_type_with_work
-- Find the next type, in the order of names, with pending jobs in a queue that is not paused, and its first job, which
-- has no concurrency key if there is such a job: one step of a loose index scan. Primary key of rota_ready.
SELECT type, turn, id, concurrency_key
FROM rota_ready
WHERE queue = %(queue)s AND type >= %(from_type)s
    AND NOT EXISTS (
        SELECT 1 FROM rota_queue
        WHERE name = %(queue)s AND paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s)
    )
ORDER BY type, concurrency_key, turn, id
LIMIT 1;

-- name: lock_lane
-- Lock the first claimable jobs of a lane behind a position, in the order of turns, skipping jobs that another claim
-- has locked; none if the queue is paused, or if the lane has a limit. Primary key of rota_ready.
SELECT turn, id
FROM rota_ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s AND concurrency_key = ''
    AND (turn > %(after_turn)s OR turn = %(after_turn)s AND id > %(after_id)s)
    AND run_at <= %(now)s AND (expires_at IS NULL OR expires_at > %(now)s)
    AND NOT EXISTS (
        SELECT 1 FROM rota_queue
        WHERE name = %(queue)s AND paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s)
    )
    AND NOT EXISTS (
        SELECT 1 FROM rota_limit WHERE name IN (concat('queue:', %(queue)s), concat('task:', %(type)s))
    )
ORDER BY turn, id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;

-- name: read_claimed_range
-- Read the columns that a claim returns, for all jobs of a lane in a range of positions, as they are once leased.
-- Primary keys.
SELECT {claimed_columns}
FROM rota_ready AS ready FORCE INDEX (PRIMARY) STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = ready.id
WHERE ready.queue = %(queue)s AND ready.type = %(type)s AND ready.concurrency_key = ''
    AND (ready.turn > %(first_turn)s OR ready.turn = %(first_turn)s AND ready.id >= %(first_id)s)
    AND (ready.turn < %(last_turn)s OR ready.turn = %(last_turn)s AND ready.id <= %(last_id)s)
LIMIT %(limit)s;

-- name: count_ready_range
-- Count the jobs of a lane in a range of positions, locked or not. Jobs inserted in bulk share one turn, so the range
-- is bounded by ids as well. Primary key of rota_ready.
SELECT count(*) FROM rota_ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s AND concurrency_key = ''
    AND (turn > %(first_turn)s OR turn = %(first_turn)s AND id >= %(first_id)s)
    AND (turn < %(last_turn)s OR turn = %(last_turn)s AND id <= %(last_id)s);

-- name: delete_ready_range
-- Delete locked jobs of a lane from rota_ready, as one range of the primary key, except the job at the end of the
-- range. The list of ids excludes jobs that were inserted into the range meanwhile. The row at the end is locked too,
-- so it must be one of ours, or we would wait for another claim. Written as a multi-table DELETE because only that
-- takes an index hint; without the hint a short list is searched by a full scan, which waits for rows locked by others.
DELETE ready FROM rota_ready AS ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s AND concurrency_key = ''
    AND (turn > %(first_turn)s OR turn = %(first_turn)s AND id >= %(first_id)s)
    AND (turn < %(last_turn)s OR turn = %(last_turn)s AND id < %(last_id)s)
    AND id + 0 IN %(ids)s;

-- name: delete_ready_one
-- Delete one locked job from rota_ready. Primary key; the hint as in delete_ready_range.
DELETE ready FROM rota_ready AS ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s AND concurrency_key = '' AND turn = %(first_turn)s AND id = %(first_id)s;

-- name: peek_lane
-- Read the first claimable jobs of a lane behind a position and up to a turn, with the number of the lane. Locks
-- nothing. lanes.py repeats this for each lane (UNION ALL). Primary key of rota_ready.
SELECT :number, turn, id
FROM rota_ready FORCE INDEX (PRIMARY)
WHERE queue = %s AND type = %s AND concurrency_key = '' AND (turn > %s OR turn = %s AND id > %s) AND turn <= %s
    AND run_at <= %s AND (expires_at IS NULL OR expires_at > %s)
ORDER BY turn, id
LIMIT %s;

-- name: lock_in_lanes
-- Lock the first `limit` of some pending jobs of several lanes, in the given order, skipping jobs that are gone or
-- locked; none of a paused queue or of a lane with a limit. Primary key of rota_ready, by keys in a JSON table.
SELECT ready.turn, ready.id
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    queue VARCHAR(255) COLLATE :collation PATH '$[0]',
    type VARCHAR(255) COLLATE :collation PATH '$[1]',
    turn BIGINT PATH '$[2]',
    id BIGINT PATH '$[3]'
)) AS sought
    STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
    ON ready.queue = sought.queue AND ready.type = sought.type AND ready.concurrency_key = ''
    AND ready.turn = sought.turn AND ready.id = sought.id
WHERE ready.run_at <= %(now)s AND (ready.expires_at IS NULL OR ready.expires_at > %(now)s)
    AND NOT EXISTS (
        SELECT 1 FROM rota_queue
        WHERE name = sought.queue AND paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s)
    )
    AND NOT EXISTS (SELECT 1 FROM rota_limit WHERE name = concat('queue:', sought.queue))
    AND NOT EXISTS (SELECT 1 FROM rota_limit WHERE name = concat('task:', sought.type))
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;

-- name: read_claimed_by_id
-- Read the columns that a claim returns, for some jobs, as they are once leased. Primary key.
SELECT {claimed_columns}
FROM rota_job AS job FORCE INDEX (PRIMARY)
WHERE job.id IN %(ids)s;

-- name: delete_ready_in_lanes
-- Delete jobs of several lanes from rota_ready. Primary key. Keys in a JSON table: MariaDB takes no index hint in a
-- plain DELETE, and a scan would wait for rows others hold.
DELETE ready
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    queue VARCHAR(255) COLLATE :collation PATH '$[0]',
    type VARCHAR(255) COLLATE :collation PATH '$[1]',
    turn BIGINT PATH '$[2]',
    id BIGINT PATH '$[3]'
)) AS gone
    STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
    ON ready.queue = gone.queue AND ready.type = gone.type AND ready.concurrency_key = ''
    AND ready.turn = gone.turn AND ready.id = gone.id;

-- name: read_leased
-- Read the columns that a claim returns, for jobs that have just been leased; the last column as in claimed_columns.
-- Primary keys.
SELECT
    job.id, job.type, job.payload, job.queue, job.priority, job.run_at, job.created_at, lease.fence, job.attempts + 1,
    job.crashes, job.max_attempts, job.delivery, lease.started_at,
    IF(lease.cancel_requested_at IS NOT NULL OR {sets_optional_fields}, '', job.concurrency_key)
FROM rota_lease AS lease FORCE INDEX (PRIMARY) STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
WHERE lease.id IN %(ids)s;

-- name: due_soon
-- Read jobs that become due within the look-ahead of a claim, earliest first, then by priority. All that become due so
-- soon are read and sorted. At-most-once jobs are left out: if the worker died while it holds one that has not started,
-- the job would have to be dead. Primary keys of rota_scheduled and rota_job.
SELECT scheduled.id
FROM rota_scheduled AS scheduled FORCE INDEX (PRIMARY)
    STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = scheduled.id
WHERE scheduled.run_at > %(now)s AND scheduled.run_at <= %(until)s
    AND scheduled.queue IN %(queues)s AND (%(takes_all)s OR scheduled.type IN %(types)s)
    AND job.concurrency_key IS NULL
    AND NOT EXISTS (SELECT 1 FROM rota_limit WHERE name = concat('queue:', job.queue))
    AND NOT EXISTS (SELECT 1 FROM rota_limit WHERE name = concat('task:', job.type))
    AND job.delivery <> 'at_most_once' AND (job.expires_at IS NULL OR job.expires_at > job.run_at)
ORDER BY scheduled.run_at, job.priority DESC, scheduled.id
LIMIT %(limit)s;

-- name: insert_leases
-- Lease jobs to a worker: attempt and fence grow by one. A job leased ahead of its time starts at its time. Primary key
-- of rota_job.
INSERT INTO rota_lease (id, fence, worker, boot, lease_until, started_at, updated_at, expires_at, concurrency_key)
SELECT
    id, fence + 1, %(worker)s, %(boot)s, %(lease_until)s, greatest(%(now)s, run_at), %(now)s, expires_at,
    concurrency_key
FROM rota_job WHERE id IN %(ids)s;

-- name: set_lease_variables
-- Set the session variables that insert_lease_shared reads.
SET @worker = %(worker)s, @boot = %(boot)s, @lease_until = %(lease_until)s, @now = %(now)s;

-- name: insert_lease_shared
-- Lease a job of which only id and fence differ from the others of the claim; the rest is in session variables.
INSERT INTO rota_lease (id, fence, worker, boot, lease_until, started_at, updated_at)
    VALUES (%s, %s, @worker, @boot, @lease_until, @now, @now);

-- name: insert_leases_bulk
-- Lease jobs as a bulk command of the protocol (pipeline.py): ids and fences differ, the rest is shared.
INSERT INTO rota_lease (id, fence, worker, boot, lease_until, started_at, updated_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s);

-- name: named_claims
-- Read what named claims returned. Primary key.
SELECT claim_id, leases FROM rota_claim WHERE claim_id IN %(claim_ids)s;

-- name: insert_named_claim
-- Store what a named claim returned, so that a repeated request gets the same answer.
INSERT INTO rota_claim (claim_id, at, leases) VALUES (%s, %s, %s);

-- name: lock_leases
-- Read and lock leases. Primary key, in the order of ids.
SELECT id, fence, cancel_requested_at, worker, boot, started_at, expires_at, concurrency_key
FROM rota_lease FORCE INDEX (PRIMARY) WHERE id IN %(ids)s ORDER BY id FOR UPDATE;

-- name: renew_leases
-- Extend leases. Primary key.
UPDATE rota_lease FORCE INDEX (PRIMARY) SET lease_until = %(lease_until)s WHERE id IN %(ids)s;

-- name: record_progress
-- Store progress and log tail of a running attempt. Primary key.
INSERT INTO rota_attempt (job_id, fence, worker, boot, started_at, progress, log_tail)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
    progress = coalesce(VALUES(progress), progress), log_tail = coalesce(VALUES(log_tail), log_tail);

-- name: request_cancel
-- Ask a running job to stop, if the fence still holds. The first request counts. Primary key.
UPDATE rota_lease SET cancel_requested_at = coalesce(cancel_requested_at, %(now)s), updated_at = %(now)s
WHERE id = %(id)s AND fence = %(fence)s;

-- name: lapsed_leases
-- Read running jobs whose lease has lapsed. Served by rota_lease_end.
SELECT {job_columns}
FROM rota_lease AS lease FORCE INDEX (rota_lease_end) STRAIGHT_JOIN rota_job AS job ON job.id = lease.id
WHERE lease.lease_until <= %(now)s
ORDER BY lease.lease_until, lease.id
LIMIT %(limit)s;
