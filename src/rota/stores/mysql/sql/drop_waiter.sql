-- What these jobs waited for cannot come any more. By primary key.
UPDATE job FORCE INDEX (PRIMARY)
SET state = 'cancelled', reason = 'dependency_failed', finished_at = %(now)s, updated_at = %(now)s, room = NULL
WHERE id IN %(ids)s
