-- Make jobs queued that a broker will hand over. By primary key.
UPDATE job SET state = 'queued', updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND +state = 'pending'
RETURNING id, queue, type, priority
