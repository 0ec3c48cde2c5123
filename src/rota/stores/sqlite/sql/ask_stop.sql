-- Ask a job to stop if it runs, under whatever fence. By primary key.
UPDATE job SET cancel_requested_at = coalesce(cancel_requested_at, :now), updated_at = :now
WHERE id = :id AND state = 'running'
