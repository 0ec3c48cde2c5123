-- Give jobs whose time is yet to come, but soon, the earliest first, the most urgent first among those of one time. By
-- primary key of both; all that comes so soon is read and sorted.
-- What must run at most once is left out: were its worker to die while it holds it, it would have to be dead, although it
-- never began.
SELECT scheduled.id
FROM scheduled FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = scheduled.id
WHERE scheduled.run_at > %(now)s AND scheduled.run_at <= %(until)s
    AND scheduled.queue IN %(queues)s AND (%(takes_all)s OR scheduled.type IN %(types)s)
    AND job.delivery <> 'at_most_once' AND (job.expires_at IS NULL OR job.expires_at > job.run_at)
ORDER BY scheduled.run_at, job.priority DESC, scheduled.id
LIMIT %(limit)s
