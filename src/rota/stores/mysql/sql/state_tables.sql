-- name: lock_jobs
-- Lock jobs and read their placement. Primary key, in the order of ids.
SELECT {placement_columns}
FROM rota_job AS job FORCE INDEX (PRIMARY) LEFT JOIN rota_lease AS lease FORCE INDEX (PRIMARY) ON lease.id = job.id
WHERE job.id IN %(ids)s
ORDER BY job.id
FOR UPDATE;

-- name: lock_jobs_skip_locked
-- Lock the jobs that no other transaction has locked, and read their placement. Primary key.
SELECT {placement_columns}
FROM rota_job AS job FORCE INDEX (PRIMARY) LEFT JOIN rota_lease AS lease FORCE INDEX (PRIMARY) ON lease.id = job.id
WHERE job.id IN %(ids)s
ORDER BY job.id
FOR UPDATE SKIP LOCKED;

-- name: lock_running_jobs
-- Lock running jobs and read their placement: the lease first, as everywhere. Primary keys.
SELECT {placement_columns}
FROM rota_lease AS lease FORCE INDEX (PRIMARY) STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = lease.id
WHERE lease.id IN %(ids)s
ORDER BY lease.id
FOR UPDATE;

-- name: lock_ready
-- Of some pending jobs of a lane and key, lock and read those that are still unclaimed. Primary key, by keys in a JSON table:
-- with a list of pairs, a small table would be scanned.
SELECT ready.id
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (turn BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS sought
    STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
    ON ready.queue = %(queue)s AND ready.type = %(type)s AND ready.concurrency_key = %(concurrency_key)s
    AND ready.turn = sought.turn AND ready.id = sought.id
FOR UPDATE;

-- name: insert_ready
-- Make a pending job claimable.
INSERT INTO rota_ready (queue, type, concurrency_key, turn, id, run_at, expires_at) VALUES (%s, %s, %s, %s, %s, %s, %s);

-- name: insert_scheduled
-- Add a scheduled or retrying job.
INSERT INTO rota_scheduled (run_at, id, state, queue, type) VALUES (%s, %s, %s, %s, %s);

-- name: insert_held
-- Add a blocked or queued job.
INSERT INTO rota_held (id, state, queue, type) VALUES (%s, %s, %s, %s);

-- name: insert_finished
-- Add a finished job; of a dead one also its type and fingerprint, which are its cause.
INSERT INTO rota_finished (state, finished_at, id, fingerprint, type) VALUES (%s, %s, %s, %s, %s);

-- name: insert_expiry
-- Add a job that has to start before a time.
INSERT INTO rota_expiry (expires_at, id) VALUES (%s, %s);

-- name: insert_sequence
-- Add an unfinished job with a concurrency key.
INSERT INTO rota_sequence (concurrency_key, id) VALUES (%s, %s);

-- name: insert_fired
-- Add a job to those that its schedule has made.
INSERT INTO rota_fired (schedule_id, job_id) VALUES (%s, %s);

-- name: delete_ready
-- Delete pending jobs of a lane and key. Primary key. Keys in a JSON table: MariaDB takes no index hint in a plain DELETE, and
-- a scan would wait for rows others hold.
DELETE ready
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (turn BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS gone
    STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
    ON ready.queue = %(queue)s AND ready.type = %(type)s AND ready.concurrency_key = %(concurrency_key)s
    AND ready.turn = gone.turn AND ready.id = gone.id;

-- name: delete_scheduled
-- Delete scheduled and retrying jobs. Primary key. JSON table: see delete_ready.
DELETE scheduled
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (run_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS gone
    STRAIGHT_JOIN rota_scheduled AS scheduled FORCE INDEX (PRIMARY)
    ON scheduled.run_at = gone.run_at AND scheduled.id = gone.id;

-- name: delete_held
-- Delete blocked and queued jobs. Primary key. JSON table: see delete_ready.
DELETE held
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS gone
    STRAIGHT_JOIN rota_held AS held FORCE INDEX (PRIMARY) ON held.id = gone.id;

-- name: delete_lease
-- Delete leases. Primary key. JSON table: see delete_ready.
DELETE lease
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS gone
    STRAIGHT_JOIN rota_lease AS lease FORCE INDEX (PRIMARY) ON lease.id = gone.id;

-- name: delete_finished
-- Delete finished jobs of a state. Primary key. JSON table: see delete_ready.
DELETE finished
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (finished_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS gone
    STRAIGHT_JOIN rota_finished AS finished FORCE INDEX (PRIMARY)
    ON finished.state = %(state)s AND finished.finished_at = gone.finished_at AND finished.id = gone.id;

-- name: delete_expiry
-- Delete the latest start of jobs. Primary key. JSON table: see delete_ready.
DELETE expiry
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (expires_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS gone
    STRAIGHT_JOIN rota_expiry AS expiry FORCE INDEX (PRIMARY)
    ON expiry.expires_at = gone.expires_at AND expiry.id = gone.id;

-- name: delete_sequence
-- Delete unfinished jobs of a concurrency key. Primary key. JSON table: see delete_ready.
DELETE sequence
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS gone
    STRAIGHT_JOIN rota_sequence AS sequence FORCE INDEX (PRIMARY)
    ON sequence.concurrency_key = %(concurrency_key)s AND sequence.id = gone.id;
