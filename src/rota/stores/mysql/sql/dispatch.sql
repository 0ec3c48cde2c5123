-- Make jobs queued that we keep locked and a broker will hand over. By primary key.
UPDATE job FORCE INDEX (PRIMARY) SET state = 'queued', updated_at = %(now)s WHERE id IN %(ids)s
