-- Make queued jobs pending again. By primary key.
UPDATE job SET state = 'pending', updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND +state = 'queued'
RETURNING id
