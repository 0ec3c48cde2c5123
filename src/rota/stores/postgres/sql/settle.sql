-- Settlements and requests to cancel.

-- name: complete_jobs
-- Settle plain successes whose fence still holds and on which no job depends. By primary key. A job has a lease
-- exactly while it runs; if the state were compared, the planner would start from all running jobs.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
gone AS (
    DELETE FROM {schema}rota_job AS job USING unnest($2::text::bigint[], $3::text::bigint[], $4::text[])
    AS settled (id, fence, outcome)
    WHERE job.id = settled.id AND job.fence = settled.fence AND job.lease_until IS NOT NULL AND NOT job.is_awaited
    RETURNING job.*, settled.outcome
),
kept AS (
    INSERT INTO {schema}rota_job_done (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
        worker, boot, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff, payload,
        result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time
    )
    SELECT
        id, type, queue, priority, 'completed', turn, run_at, created_at, clock.now, fence, attempts, crashes,
        max_attempts, worker, boot, started_at, clock.now, cancel_requested_at, expires_at, timeout, delivery, backoff,
        payload, outcome, NULL, NULL, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time
    FROM gone, clock
)
SELECT id FROM gone

-- name: settle_finished
-- Put finished jobs back to waiting (a retry), if they are unchanged. By primary key of one partition: the state is
-- compared in a way that no index can serve, or all dead jobs might be read for one.
WITH moved AS (
    DELETE FROM {schema}rota_job_done AS job_done USING unnest(
        $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::boolean[], $10::boolean[],
        $11::boolean[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::boolean[]
    ) AS settled (
        id, fence, source, target, event, new_run_at, refund, crash, renew, lapsed_at, new_result, new_error,
        new_reason, new_fingerprint, log_tail, progress, is_noted
    )
    WHERE job_done.id = settled.id AND job_done.fence = settled.fence AND job_done.state || '' = settled.source
    RETURNING job_done.*, settled.target, settled.new_run_at, settled.refund, settled.crash, settled.renew,
        settled.new_result, settled.new_error, settled.new_reason, settled.new_fingerprint
),
kept AS (
    INSERT INTO {schema}rota_job (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
        worker, boot, started_at, cancel_requested_at, expires_at, timeout, delivery, backoff, payload, result,
        error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure,
        parent_id, schedule_id, fire_time
    )
    SELECT
        id, type, queue, priority, target,
        CASE WHEN new_run_at IS NULL THEN turn ELSE new_run_at - priority * $2::bigint END,
        coalesce(new_run_at, run_at), created_at, $1::bigint, fence,
        CASE WHEN renew THEN 0 ELSE attempts - refund::integer END,
        CASE WHEN renew THEN 0 ELSE crashes + crash::integer END,
        max_attempts, worker, boot, started_at, CASE WHEN NOT renew THEN cancel_requested_at END,
        CASE WHEN NOT renew THEN expires_at END, timeout, delivery, backoff, payload, new_result, new_error, new_reason,
        new_fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
        schedule_id, fire_time
    FROM moved
)
SELECT id FROM moved

-- name: settle_to_waiting
-- Put unfinished jobs back to waiting, if state and fence still hold, and record the attempts that ended. By primary
-- key. A running job with a cancel request may end, but not run again.
WITH moved AS (
    UPDATE {schema}rota_job AS job
    SET state = settled.target,
        run_at = coalesce(settled.new_run_at, job.run_at),
        turn = CASE
            WHEN settled.new_run_at IS NULL THEN job.turn ELSE settled.new_run_at - job.priority * $2::bigint
        END,
        attempts = CASE WHEN settled.renew THEN 0 ELSE job.attempts - settled.refund::integer END,
        crashes = CASE WHEN settled.renew THEN 0 ELSE job.crashes + settled.crash::integer END,
        cancel_requested_at = CASE WHEN NOT settled.renew THEN job.cancel_requested_at END,
        expires_at = CASE WHEN NOT settled.renew THEN job.expires_at END,
        lease_until = NULL,
        blockers = CASE WHEN settled.target = 'blocked' THEN 1 ELSE job.blockers END,
        result = settled.new_result, error = settled.new_error, reason = settled.new_reason,
        fingerprint = settled.new_fingerprint,
        updated_at = $1::bigint
    FROM unnest(
        $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::boolean[], $10::boolean[],
        $11::boolean[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::boolean[]
    ) AS settled (
        id, fence, source, target, event, new_run_at, refund, crash, renew, lapsed_at, new_result, new_error,
        new_reason, new_fingerprint, log_tail, progress, is_noted
    )
    WHERE job.id = settled.id AND job.fence = settled.fence AND job.state = settled.source
        AND (job.lease_until IS NULL OR job.cancel_requested_at IS NULL)
        AND (settled.lapsed_at IS NULL OR (job.lease_until = settled.lapsed_at AND job.lease_until <= $1::bigint))
    RETURNING job.id, job.fence, job.worker, job.boot, job.started_at, settled.event, settled.new_error,
        settled.log_tail, settled.progress, settled.is_noted
),
noted AS (
    INSERT INTO {schema}rota_attempt AS attempt (
        job_id, fence, worker, boot, started_at, ended_at, event, error, log_tail, progress
    )
    SELECT id, fence, worker, boot, started_at, $1::bigint, event, new_error, log_tail, progress FROM moved WHERE is_noted
    ON CONFLICT (job_id, fence) DO UPDATE
    SET ended_at = excluded.ended_at, event = excluded.event, error = excluded.error,
        log_tail = coalesce(excluded.log_tail, attempt.log_tail),
        progress = coalesce(excluded.progress, attempt.progress)
)
SELECT id FROM moved

-- name: settle_to_finished
-- Move jobs to rota_job_done, if state and fence still hold, and record the attempts that ended. By primary key.
WITH moved AS (
    DELETE FROM {schema}rota_job AS job USING unnest(
        $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::boolean[], $10::boolean[],
        $11::boolean[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::boolean[]
    ) AS settled (
        id, fence, source, target, event, new_run_at, refund, crash, renew, lapsed_at, new_result, new_error,
        new_reason, new_fingerprint, log_tail, progress, is_noted
    )
    WHERE job.id = settled.id AND job.fence = settled.fence AND job.state = settled.source
        AND (settled.lapsed_at IS NULL OR (job.lease_until = settled.lapsed_at AND job.lease_until <= $1::bigint))
    RETURNING job.*, settled.target, settled.event, settled.new_run_at, settled.refund, settled.crash, settled.renew,
        settled.new_result, settled.new_error, settled.new_reason, settled.new_fingerprint, settled.log_tail,
        settled.progress, settled.is_noted
),
kept AS (
    INSERT INTO {schema}rota_job_done (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
        worker, boot, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff, payload,
        result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time
    )
    SELECT
        id, type, queue, priority, target,
        CASE WHEN new_run_at IS NULL THEN turn ELSE new_run_at - priority * $2::bigint END,
        coalesce(new_run_at, run_at), created_at, $1::bigint, fence,
        CASE WHEN renew THEN 0 ELSE attempts - refund::integer END,
        CASE WHEN renew THEN 0 ELSE crashes + crash::integer END,
        max_attempts, worker, boot, started_at, $1::bigint, CASE WHEN NOT renew THEN cancel_requested_at END,
        CASE WHEN NOT renew THEN expires_at END, timeout, delivery, backoff, payload, new_result, new_error, new_reason,
        new_fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
        schedule_id, fire_time
    FROM moved
    ON CONFLICT DO NOTHING
),
noted AS (
    INSERT INTO {schema}rota_attempt AS attempt (
        job_id, fence, worker, boot, started_at, ended_at, event, error, log_tail, progress
    )
    SELECT id, fence, worker, boot, started_at, $1::bigint, event, new_error, log_tail, progress FROM moved WHERE is_noted
    ON CONFLICT (job_id, fence) DO UPDATE
    SET ended_at = excluded.ended_at, event = excluded.event, error = excluded.error,
        log_tail = coalesce(excluded.log_tail, attempt.log_tail),
        progress = coalesce(excluded.progress, attempt.progress)
)
SELECT id FROM moved

-- name: job_types
-- The types of unfinished jobs. By primary key.
SELECT job.id, job.type FROM unnest($1::bigint[]) AS wanted (id) JOIN {schema}rota_job AS job ON job.id = wanted.id

-- name: request_cancel
-- Request running jobs to stop, if the fence still holds. The first request counts. By primary key.
UPDATE {schema}rota_job AS job
SET cancel_requested_at = coalesce(job.cancel_requested_at, $1::bigint), updated_at = $1::bigint
FROM unnest($2::bigint[], $3::bigint[]) AS asked (id, fence)
WHERE job.id = asked.id AND job.fence = asked.fence AND job.lease_until IS NOT NULL
RETURNING job.id, job.fence

-- name: request_cancel_any_fence
-- Request jobs to stop if they run, under any fence. By primary key.
UPDATE {schema}rota_job AS job
SET cancel_requested_at = coalesce(job.cancel_requested_at, $1::bigint), updated_at = $1::bigint
FROM unnest($2::bigint[]) AS asked (id)
WHERE job.id = asked.id AND job.lease_until IS NOT NULL

-- name: edit_job
-- Change a waiting job that is still as it was read. By primary key. A job whose time is unchanged keeps its place in
-- claim order, but for its priority.
UPDATE {schema}rota_job
SET state = $5::text, queue = $6::text, priority = $7::integer, max_attempts = $9::integer, payload = $10::text,
    tags = $11::text, updated_at = $13::bigint,
    turn = CASE
        WHEN run_at = $8::bigint THEN turn + (priority - $7::integer) * $12::bigint
        ELSE greatest($8::bigint, $13::bigint) - $7::integer * $12::bigint
    END,
    run_at = $8::bigint
WHERE id = $1::bigint AND fence = $2::bigint AND state = $3::text AND updated_at = $4::bigint

-- name: delete_job_tags
-- Delete the tags of a job. Served by rota_tag_job.
DELETE FROM {schema}rota_tag WHERE job_id = $1::bigint
