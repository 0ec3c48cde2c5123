-- Settle plain successes whose leases we keep, and who have all of this in common. By primary key.
UPDATE job FORCE INDEX (PRIMARY)
SET state = 'completed', finished_at = %(now)s, updated_at = %(now)s, result = %(result)s, error = NULL, reason = NULL,
    fingerprint = NULL, room = NULL, fence = %(fence)s, attempts = attempts + 1, worker = %(worker)s, boot = %(boot)s,
    started_at = %(started_at)s, cancel_requested_at = %(cancel_requested_at)s
WHERE id IN %(ids)s
