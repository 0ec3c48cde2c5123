-- Ask a running job to stop. By primary key. Asked twice, the first time counts.
UPDATE lease SET cancel_requested_at = coalesce(cancel_requested_at, %(now)s), updated_at = %(now)s
WHERE id = %(id)s AND fence = %(fence)s
