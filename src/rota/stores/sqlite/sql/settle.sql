-- Settle anything, if the job is still where and whose it was. By primary key.
-- A job that was asked to stop may end, but not run again.
UPDATE job
SET state = :target,
    run_at = coalesce(:run_at, run_at),
    turn = CASE WHEN :run_at IS NULL THEN turn ELSE :run_at - priority * :aging END,
    attempts = CASE WHEN :renew THEN 0 ELSE attempts - :refund END,
    crashes = CASE WHEN :renew THEN 0 ELSE crashes + :crash END,
    cancel_requested_at = CASE WHEN :renew THEN NULL ELSE cancel_requested_at END,
    expires_at = CASE WHEN :renew THEN NULL ELSE expires_at END,
    lease_until = NULL,
    finished_at = CASE WHEN :is_final THEN :now END,
    result = :result, error = :error, reason = :reason,
    fingerprint = :fingerprint,
    updated_at = :now
WHERE id = :id AND fence = :fence AND state = :source
    AND (:is_final OR state <> 'running' OR cancel_requested_at IS NULL)
    AND (NOT :if_lapsed OR lease_until <= :now)
