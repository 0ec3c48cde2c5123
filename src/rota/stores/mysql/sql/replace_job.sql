-- Cancel a waiting job whose successor has come. By primary key.
UPDATE job SET state = 'cancelled', reason = 'replaced', finished_at = %(now)s, updated_at = %(now)s, room = NULL
WHERE id = %(id)s
