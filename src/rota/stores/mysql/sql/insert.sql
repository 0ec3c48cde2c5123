-- name: insert_jobs
-- Insert jobs with all fields that a submission may set.
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, expires_at, timeout, delivery,
    backoff, payload, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
    schedule_id, fire_time
) VALUES (
    %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s
);

-- name: insert_plain_jobs
-- Insert jobs that set only what every job sets.
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: set_job_variables
-- Set the session variables that insert_job_shared and insert_ready_shared read.
SET @type = %(type)s, @queue = %(queue)s, @priority = %(priority)s, @turn = %(turn)s, @run_at = %(run_at)s,
    @now = %(now)s, @max_attempts = %(max_attempts)s, @delivery = %(delivery)s;

-- name: insert_job_shared
-- Insert a pending job of which only id and payload differ from the others of the bulk; the rest is in session
-- variables.
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
) VALUES (%s, @type, @queue, @priority, 'pending', @turn, @run_at, @now, @now, @max_attempts, @delivery, %s);

-- name: insert_ready_shared
-- Make a job of the bulk claimable; the rest is in session variables.
INSERT INTO rota_ready (queue, type, turn, id, run_at, expires_at) VALUES (@queue, @type, @turn, %s, @run_at, NULL);

-- name: insert_tag
-- Make a job findable by a tag.
INSERT INTO rota_tag (tag, job_id) VALUES (%s, %s);

-- name: job_states
-- Read the states of jobs. Primary key.
SELECT job.id, IF(lease.id IS NULL, job.state, 'running')
FROM rota_job AS job LEFT JOIN rota_lease AS lease ON lease.id = job.id WHERE job.id IN %(ids)s;

-- name: lock_job_states
-- Read and share-lock the states of jobs as they are now, also where a caller's transaction reads an older snapshot. A
-- running job shows the state it was claimed in: rota_lease is not read, because locking the gap of a missing lease
-- would block claims. Primary key.
SELECT id, state FROM rota_job WHERE id IN %(ids)s LOCK IN SHARE MODE;
