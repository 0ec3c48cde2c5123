-- Make queued jobs pending again that we keep locked. By primary key.
UPDATE job FORCE INDEX (PRIMARY) SET state = 'pending', updated_at = %(now)s WHERE id IN %(ids)s
