-- Give what a claim tells of all jobs of a lane from one to another, if it leases them now: see leased.sql. By primary key.
SELECT
    job.id, job.type, job.payload, job.queue, job.priority, job.run_at, job.created_at, job.fence + 1, job.attempts + 1,
    job.crashes, job.max_attempts, job.delivery, CAST(%(now)s AS SIGNED),
    IF({sets_more}, 1, NULL)
FROM ready FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = ready.id
WHERE ready.queue = %(queue)s AND ready.type = %(type)s
    AND (ready.turn > %(first_turn)s OR ready.turn = %(first_turn)s AND ready.id >= %(first_id)s)
    AND (ready.turn < %(last_turn)s OR ready.turn = %(last_turn)s AND ready.id <= %(last_id)s)
LIMIT %(limit)s
