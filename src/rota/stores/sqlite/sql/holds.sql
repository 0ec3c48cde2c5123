-- Say whether a job still runs under a fence. By primary key.
SELECT 1 FROM job WHERE id = ? AND fence = ? AND state = 'running'
