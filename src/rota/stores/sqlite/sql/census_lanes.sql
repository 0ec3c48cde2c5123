-- Count unfinished jobs by lane and state, and say when the next of each lane became due. Only of those that run, of those
-- that a broker holds and of the first of each lane are rows read: the others stand in job_turn, job_later and job_held
-- with all that is counted. The condition of job_held must be repeated, as in queue_depth.sql.
SELECT lane.queue, lane.type, 'pending', lane.size, (
    SELECT turn + priority * :aging
    FROM job INDEXED BY job_turn
    WHERE state = 'pending' AND queue = lane.queue AND type = lane.type
    ORDER BY turn
    LIMIT 1
)
FROM (
    SELECT queue, type, count(*) AS size
    FROM job INDEXED BY job_turn
    WHERE state = 'pending'
    GROUP BY queue, type
) AS lane
UNION ALL
SELECT queue, type, state, count(*), NULL
FROM job INDEXED BY job_later
WHERE state IN ('scheduled', 'retrying')
GROUP BY queue, type, state
UNION ALL
SELECT queue, type, 'running', count(*), NULL
FROM job INDEXED BY job_lease
WHERE state = 'running'
GROUP BY queue, type
UNION ALL
SELECT queue, type, 'blocked', count(*), NULL
FROM job INDEXED BY job_held
WHERE state IN ('blocked', 'queued') AND state = 'blocked'
GROUP BY queue, type
UNION ALL
SELECT queue, type, 'queued', count(*), min(turn + priority * :aging)
FROM job INDEXED BY job_held
WHERE state IN ('blocked', 'queued') AND state = 'queued'
GROUP BY queue, type
