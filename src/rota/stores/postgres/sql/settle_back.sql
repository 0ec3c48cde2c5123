-- Send jobs back to wait, if they are still where and whose they were, and remember the attempts that ended thereby.
-- By primary key. A running job that was asked to stop may end, but not run again.
WITH moved AS (
    UPDATE job
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
        result = settled.new_result, error = settled.new_error, reason = settled.new_reason,
        fingerprint = settled.new_fingerprint,
        updated_at = $1::bigint
    FROM unnest(
        $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::boolean[], $10::boolean[],
        $11::boolean[], $12::boolean[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::boolean[]
    ) AS settled (
        id, fence, source, target, event, new_run_at, refund, crash, renew, if_lapsed, new_result, new_error,
        new_reason, new_fingerprint, log_tail, is_noted
    )
    WHERE job.id = settled.id AND job.fence = settled.fence AND job.state = settled.source
        AND (job.lease_until IS NULL OR job.cancel_requested_at IS NULL)
        AND (NOT settled.if_lapsed OR job.lease_until <= $1::bigint)
    RETURNING job.id, job.fence, job.worker, job.boot, job.started_at, settled.event, settled.new_error,
        settled.log_tail, settled.is_noted
),
noted AS (
    INSERT INTO attempt (job_id, fence, worker, boot, started_at, ended_at, event, error, log_tail)
    SELECT id, fence, worker, boot, started_at, $1::bigint, event, new_error, log_tail FROM moved WHERE is_noted
    ON CONFLICT (job_id, fence) DO UPDATE
    SET ended_at = excluded.ended_at, event = excluded.event, error = excluded.error,
        log_tail = coalesce(excluded.log_tail, attempt.log_tail)
)
SELECT id FROM moved
