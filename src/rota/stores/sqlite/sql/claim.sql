-- name: claim_jobs
-- Lease jobs to a worker: attempts and fence grow by one. By primary key.
UPDATE rota_job
SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = :worker, boot = :boot,
    started_at = :now, lease_until = :lease_until, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('pending', 'queued')
RETURNING {claim_columns}

-- name: claim_jobs_early
-- Lease scheduled jobs to a worker shortly before they are due; they start at `run_at`. By primary key: the unary plus
-- keeps SQLite from using an index on the state, which would read all delayed jobs. Otherwise as claim_jobs.
UPDATE rota_job
SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = :worker, boot = :boot,
    started_at = run_at, lease_until = :lease_until, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND +state IN ('scheduled', 'retrying')
RETURNING {job_columns}

-- name: claimable_jobs
-- Select, of the jobs that a broker delivered, those that may be claimed. By primary key.
SELECT turn, id
FROM rota_job
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('pending', 'queued') AND run_at <= :now
    AND (expires_at IS NULL OR expires_at > :now)
    AND queue IN (SELECT value FROM json_each(:queues))
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND queue NOT IN ({paused_queue_names})
    AND {has_no_limit}
ORDER BY turn, id
LIMIT :limit

-- name: pending_of_lane
-- Select the claimable jobs of one queue and type, by turn. Index: rota_job_turn (must be named).
SELECT turn, id
FROM rota_job INDEXED BY rota_job_turn
WHERE state = 'pending' AND concurrency_key IS NULL AND queue = ? AND type = ? AND run_at <= ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY turn, id
LIMIT ?

-- name: pending_of_numbered_lane
-- Select the first claimable jobs of one queue and type, with the lane's number. claim.py joins many of these with
-- UNION ALL. Index: rota_job_turn (must be named).
SELECT * FROM (
    SELECT {number}, turn, id
    FROM rota_job INDEXED BY rota_job_turn
    WHERE state = 'pending' AND concurrency_key IS NULL AND queue = ? AND type = ? AND turn <= ?
        AND run_at <= ? AND (expires_at IS NULL OR expires_at > ?)
    ORDER BY turn, id
    LIMIT ?
)

-- name: next_type_with_work
-- Find the next type by name that has pending jobs in a queue: one step of a loose index scan of rota_job_turn.
SELECT type
FROM rota_job INDEXED BY rota_job_turn
WHERE state = 'pending' AND concurrency_key IS NULL AND queue = ? AND type >= ?
ORDER BY type
LIMIT 1

-- name: due_soon
-- Select jobs that become due within the look-ahead of a claim, by time, then by priority. Index: rota_job_time (must
-- be named, or SQLite reads and sorts all of rota_job_later); only jobs of one time are sorted. Jobs with at-most-once
-- delivery are left out: if the worker died while it held one, the job would be dead although it never started.
SELECT id
FROM rota_job INDEXED BY rota_job_time
WHERE state IN ('scheduled', 'retrying') AND run_at > :now AND run_at <= :until
    AND delivery <> 'at_most_once'
    AND (expires_at IS NULL OR expires_at > run_at)
    AND queue IN (SELECT value FROM json_each(:queues))
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND queue NOT IN ({paused_queue_names})
    AND {has_no_limit}
ORDER BY run_at, priority DESC, id
LIMIT :limit

-- name: leases_of_claim
-- Read the leases that a claim was answered with. By primary key.
SELECT leases FROM rota_claim WHERE claim_id = ?

-- name: save_claim
-- Record the leases that a claim was answered with, so that the claim can be repeated.
INSERT INTO rota_claim (claim_id, at, leases) VALUES (?, ?, ?)

-- name: replace_claim
-- Record the leases of a claim that also returns jobs handed to an earlier claim of the same worker.
INSERT INTO rota_claim (claim_id, at, leases) VALUES (?, ?, ?)
ON CONFLICT (claim_id) DO UPDATE SET at = excluded.at, leases = excluded.leases

-- name: renew_lease
-- Extend a lease that still holds. By primary key.
UPDATE rota_job SET lease_until = :lease_until
WHERE id = :id AND fence = :fence AND state = 'running'
RETURNING cancel_requested_at IS NOT NULL

-- name: save_progress
-- Store progress and log tail of a running attempt.
INSERT INTO rota_attempt (job_id, fence, worker, boot, started_at, progress, log_tail)
SELECT id, fence, worker, boot, started_at, :progress, :log_tail FROM rota_job WHERE id = :id
ON CONFLICT (job_id, fence) DO UPDATE
SET progress = coalesce(excluded.progress, progress), log_tail = coalesce(excluded.log_tail, log_tail)

-- name: request_cancel
-- Request cancellation of a running job. By primary key. The time of the first request is kept.
UPDATE rota_job SET cancel_requested_at = coalesce(cancel_requested_at, :now), updated_at = :now
WHERE id = :id AND fence = :fence AND state = 'running'
