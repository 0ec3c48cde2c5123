-- Count unfinished jobs by lane and state, each in the place where it stands.
SELECT queue, type, 'pending', count(*) FROM ready GROUP BY queue, type
UNION ALL
SELECT queue, type, state, count(*) FROM scheduled GROUP BY queue, type, state
UNION ALL
SELECT job.queue, job.type, 'running', count(*)
FROM lease STRAIGHT_JOIN job ON job.id = lease.id GROUP BY job.queue, job.type
UNION ALL
SELECT queue, type, state, count(*) FROM held GROUP BY queue, type, state
