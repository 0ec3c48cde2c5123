-- Give queued jobs by id. By primary key of held, which has blocked jobs too, and then of job.
SELECT held.id, held.queue, held.type, job.priority
FROM held FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = held.id
WHERE held.id > %(after)s AND held.state = 'queued' AND job.updated_at <= %(before)s
ORDER BY held.id
LIMIT %(limit)s
