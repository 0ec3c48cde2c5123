-- Cancel a waiting job whose successor has come. By primary key.
UPDATE job SET state = 'cancelled', reason = 'replaced', finished_at = :now, updated_at = :now
WHERE id = :id AND state IN ('blocked', 'scheduled', 'pending', 'queued', 'retrying')
