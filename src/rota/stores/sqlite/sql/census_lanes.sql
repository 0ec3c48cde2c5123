-- Count unfinished jobs by lane and state. Pending ones are counted in job_turn alone.
SELECT queue, type, 'pending', count(*) FROM job WHERE state = 'pending' GROUP BY queue, type
UNION ALL
SELECT queue, type, state, count(*) FROM job WHERE state IN ('scheduled', 'retrying') GROUP BY queue, type, state
UNION ALL
SELECT queue, type, 'running', count(*) FROM job WHERE state = 'running' GROUP BY queue, type
UNION ALL
SELECT queue, type, state, count(*) FROM job WHERE state IN ('blocked', 'queued') GROUP BY queue, type, state
