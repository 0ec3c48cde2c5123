-- Ask a running job to stop. By primary key. Asked twice, the first time counts.
UPDATE job SET cancel_requested_at = coalesce(cancel_requested_at, :now), updated_at = :now
WHERE id = :id AND fence = :fence AND state = 'running'
