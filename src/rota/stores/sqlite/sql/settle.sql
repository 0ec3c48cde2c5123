-- name: complete_jobs
-- Complete jobs whose fence still holds: job, fence and result of each. By primary key. The row of VALUES is repeated.
UPDATE rota_job
SET state = 'completed', lease_until = NULL, finished_at = ?, updated_at = ?, result = done.column3, error = NULL,
    reason = NULL
FROM (VALUES (?, ?, ?)) AS done
WHERE rota_job.id = done.column1 AND rota_job.fence = done.column2 AND rota_job.state = 'running'

-- name: settle_job
-- Apply any settlement if the job still has the state and fence that it was decided from. By primary key. A running job
-- with a cancellation request may finish, but not wait or run again.
UPDATE rota_job
SET state = :target,
    run_at = coalesce(:run_at, run_at),
    turn = CASE WHEN :run_at IS NULL THEN turn ELSE :run_at - priority * :aging END,
    attempts = CASE WHEN :renew THEN 0 ELSE attempts - :refund END,
    crashes = CASE WHEN :renew THEN 0 ELSE crashes + :crash END,
    cancel_requested_at = CASE WHEN :renew THEN NULL ELSE cancel_requested_at END,
    expires_at = CASE WHEN :renew THEN NULL ELSE expires_at END,
    lease_until = NULL,
    blockers = CASE WHEN :target = 'blocked' THEN 1 ELSE blockers END,
    finished_at = CASE WHEN :is_final THEN :now END,
    result = :result, error = :error, reason = :reason,
    fingerprint = :fingerprint,
    updated_at = :now
WHERE id = :id AND fence = :fence AND state = :source
    AND (:is_final OR state <> 'running' OR cancel_requested_at IS NULL)
    AND (:lapsed_at IS NULL OR (lease_until = :lapsed_at AND lease_until <= :now))

-- name: save_attempt
-- Record an attempt that ended in anything but plain success.
INSERT INTO rota_attempt (job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail)
SELECT id, fence, worker, boot, started_at, :now, :event, :error, :progress, :log_tail FROM rota_job WHERE id = :id
ON CONFLICT (job_id, fence) DO UPDATE
SET ended_at = excluded.ended_at, event = excluded.event, error = excluded.error,
    progress = coalesce(excluded.progress, progress), log_tail = coalesce(excluded.log_tail, log_tail)

-- name: request_stop
-- Request cancellation of a job if it runs, under any fence. By primary key.
UPDATE rota_job SET cancel_requested_at = coalesce(cancel_requested_at, :now), updated_at = :now
WHERE id = :id AND state = 'running'

-- name: edit_job
-- Change a waiting job that is still as it was read. By primary key. A job whose time is unchanged keeps its place in
-- claim order, but for its priority.
UPDATE rota_job
SET state = :target, queue = :queue, priority = :priority, max_attempts = :max_attempts, payload = :payload,
    tags = :tags, updated_at = :now,
    turn = CASE
        WHEN run_at = :run_at THEN turn + (priority - :priority) * :aging ELSE max(:run_at, :now) - :priority * :aging
    END,
    run_at = :run_at
WHERE id = :id AND fence = :fence AND state = :source AND updated_at = :updated_at

-- name: delete_job_tags
-- Delete the tags of a job. Index: rota_tag_job.
DELETE FROM rota_tag WHERE job_id = ?
