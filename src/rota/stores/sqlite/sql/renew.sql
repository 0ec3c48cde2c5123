-- Extend a lease that still holds. By primary key.
UPDATE job SET lease_until = :lease_until
WHERE id = :id AND fence = :fence AND state = 'running'
RETURNING cancel_requested_at IS NOT NULL
