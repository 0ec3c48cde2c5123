-- Cancel a waiting job whose successor has come. By primary key.
UPDATE job SET state = 'cancelled', reason = 'replaced', finished_at = %(now)s, updated_at = %(now)s
WHERE id = %(id)s
