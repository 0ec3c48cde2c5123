-- Ask a job to stop if it runs, under whatever fence. By primary key.
UPDATE lease SET cancel_requested_at = coalesce(cancel_requested_at, %(now)s), updated_at = %(now)s
WHERE id = %(id)s
