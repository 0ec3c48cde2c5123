-- Count unfinished jobs by lane and state, each in the place where it stands, and say when the next of each lane became
-- due: by primary key of ready, and then of job. A broker's windows keep the queued ones few.
SELECT lane.queue, lane.type, 'pending', lane.size, (
    SELECT next.turn + job.priority * %(aging)s
    FROM ready AS next FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = next.id
    WHERE next.queue = lane.queue AND next.type = lane.type
    ORDER BY next.queue, next.type, next.turn, next.id
    LIMIT 1
)
FROM (SELECT queue, type, count(*) AS size FROM ready GROUP BY queue, type) AS lane
UNION ALL
SELECT queue, type, state, count(*), NULL FROM scheduled GROUP BY queue, type, state
UNION ALL
SELECT job.queue, job.type, 'running', count(*), NULL
FROM lease STRAIGHT_JOIN job ON job.id = lease.id GROUP BY job.queue, job.type
UNION ALL
SELECT queue, type, state, count(*), NULL FROM held WHERE state = 'blocked' GROUP BY queue, type, state
UNION ALL
SELECT held.queue, held.type, held.state, count(*), min(job.turn + job.priority * %(aging)s)
FROM held STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = held.id
WHERE held.state = 'queued' GROUP BY held.queue, held.type, held.state
