-- Count unfinished jobs by lane and state. Only of those that run are rows read: the others stand in job_turn, job_later
-- and job_held with all that is counted.
SELECT queue, type, 'pending', count(*) FROM job WHERE state = 'pending' GROUP BY queue, type
UNION ALL
SELECT queue, type, state, count(*) FROM job WHERE state IN ('scheduled', 'retrying') GROUP BY queue, type, state
UNION ALL
SELECT queue, type, 'running', count(*) FROM job WHERE state = 'running' GROUP BY queue, type
UNION ALL
SELECT queue, type, state, count(*) FROM job WHERE state IN ('blocked', 'queued') GROUP BY queue, type, state
