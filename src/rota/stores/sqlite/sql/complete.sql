-- Settle a plain success, if the fence still holds. By primary key.
UPDATE job
SET state = 'completed', lease_until = NULL, finished_at = ?, updated_at = ?, result = ?, error = NULL, reason = NULL
WHERE id = ? AND fence = ? AND state = 'running'
