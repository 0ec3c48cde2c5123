-- Of some jobs, give those that are dead or cancelled. By primary key.
SELECT id FROM job WHERE id IN %(ids)s AND (state = 'dead' OR state = 'cancelled')
