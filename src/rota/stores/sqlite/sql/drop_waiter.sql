-- What a job waited for cannot come any more.
UPDATE job SET state = 'cancelled', reason = 'dependency_failed', finished_at = :now, updated_at = :now
WHERE id = :id AND state = 'blocked'
