-- Give jobs whose time is yet to come, but soon, the earliest first. By primary key of both.
SELECT scheduled.id
FROM scheduled FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = scheduled.id
WHERE scheduled.run_at > %(now)s AND scheduled.run_at <= %(until)s
    AND scheduled.queue IN %(queues)s AND (%(takes_all)s OR scheduled.type IN %(types)s)
    AND (job.expires_at IS NULL OR job.expires_at > job.run_at)
ORDER BY scheduled.run_at, scheduled.id
LIMIT %(limit)s
