-- Settle a plain success whose lease we keep. By primary key.
UPDATE job
SET state = 'completed', finished_at = %s, updated_at = %s, result = %s, error = NULL, reason = NULL,
    fingerprint = NULL, room = NULL, fence = %s, attempts = attempts + 1, cancel_requested_at = %s, worker = %s,
    boot = %s, started_at = %s
WHERE id = %s
