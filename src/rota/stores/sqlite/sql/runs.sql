-- Say whether a job runs. By primary key.
SELECT 1 FROM job WHERE id = ? AND state = 'running'
