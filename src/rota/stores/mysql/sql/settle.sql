-- name: settle_job
-- Write the settlement of a locked job. Primary key.
UPDATE rota_job
SET state = %s,
    run_at = %s,
    turn = %s,
    attempts = %s,
    crashes = %s,
    cancel_requested_at = %s,
    expires_at = %s,
    finished_at = %s,
    blockers = %s,
    result = %s,
    error = %s,
    reason = %s,
    fingerprint = %s,
    fence = %s,
    worker = coalesce(%s, worker),
    boot = coalesce(%s, boot),
    started_at = coalesce(%s, started_at),
    updated_at = %s,
    room = NULL
WHERE id = %s;

-- name: complete_jobs
-- Complete locked jobs whose result and lease are all equal. Primary key.
UPDATE rota_job FORCE INDEX (PRIMARY)
SET state = 'completed', finished_at = %(now)s, updated_at = %(now)s, result = %(result)s, error = NULL, reason = NULL,
    fingerprint = NULL, room = NULL, fence = %(fence)s, attempts = attempts + 1, worker = %(worker)s, boot = %(boot)s,
    started_at = %(started_at)s, cancel_requested_at = %(cancel_requested_at)s
WHERE id IN %(ids)s;

-- name: complete_job
-- Complete one locked job. Primary key.
UPDATE rota_job
SET state = 'completed', finished_at = %s, updated_at = %s, result = %s, error = NULL, reason = NULL,
    fingerprint = NULL, room = NULL, fence = %s, attempts = attempts + 1, cancel_requested_at = %s, worker = %s,
    boot = %s, started_at = %s
WHERE id = %s;

-- name: insert_completed
-- Add a completed job to rota_finished.
INSERT INTO rota_finished (state, finished_at, id) VALUES ('completed', %s, %s);

-- name: insert_completed_bulk
-- Add completed jobs to rota_finished as a bulk command of the protocol (pipeline.py).
INSERT INTO rota_finished (id, finished_at, state) VALUES (%s, %s, 'completed');

-- name: delete_unchanged_leases
-- Delete leases that are as they were given: same fence, no request to cancel. Primary key; the hint as in
-- delete_ready_range.
DELETE lease FROM rota_lease AS lease FORCE INDEX (PRIMARY)
WHERE id IN %(ids)s AND fence = %(fence)s AND cancel_requested_at IS NULL AND expires_at IS NULL;

-- name: require_row_count
-- Fail unless the statement before changed exactly this number of rows. For statements sent before the answer of the
-- one before is known.
IF ROW_COUNT() <> %(count)s THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'unexpected number of rows';
END IF;

-- name: require_no_dependents
-- Fail if a job depends on one in a range of ids (see has_dependents). A loop, because the subquery of an IF locks what
-- it reads, and would wait for a caller that adds a dependency in an open transaction. Primary key.
FOR dependency_found IN (
    SELECT 1 FROM rota_dependency FORCE INDEX (PRIMARY) WHERE parent BETWEEN %(first)s AND %(last)s LIMIT 1
) DO
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a job depends on one of these jobs';
END FOR;

-- name: record_attempt
-- Store an attempt that ended in anything but a plain success. Primary key.
INSERT INTO rota_attempt (job_id, fence, worker, boot, started_at, ended_at, event, error, log_tail, progress)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
    ended_at = VALUES(ended_at), event = VALUES(event), error = VALUES(error),
    log_tail = coalesce(VALUES(log_tail), log_tail), progress = coalesce(VALUES(progress), progress);

-- name: job_changed_at
-- When a locked job changed last. Primary key.
SELECT updated_at FROM rota_job WHERE id = %(id)s;

-- name: edit_job
-- Change a locked job that waits. Primary key.
UPDATE rota_job
SET state = %(target)s, queue = %(queue)s, priority = %(priority)s, max_attempts = %(max_attempts)s,
    payload = %(payload)s, tags = %(tags)s, updated_at = %(now)s, run_at = %(run_at)s, turn = %(turn)s
WHERE id = %(id)s;

-- name: delete_job_tags
-- Delete the tags of a job. Served by rota_tag_job.
DELETE FROM rota_tag WHERE job_id = %(id)s;
