-- Give what a claim tells of all jobs of a lane from one to another, if it leases them now: see leased.sql. By primary key.
SELECT
    job.id, job.type, job.payload, job.queue, job.priority, job.run_at, job.created_at, job.fence + 1, job.attempts + 1,
    job.crashes, job.max_attempts, job.delivery, CAST(%(now)s AS SIGNED),
    IF(
        job.blockers <> 0 OR coalesce(
            job.backoff, job.timeout, job.expires_at, job.cancel_requested_at, job.result, job.error, job.reason,
            job.idempotency_key, job.concurrency_key, job.tags, job.meta, job.on_success, job.on_failure, job.parent_id,
            job.schedule_id, job.fire_time
        ) IS NOT NULL,
        1, NULL
    )
FROM ready FORCE INDEX (PRIMARY) STRAIGHT_JOIN job FORCE INDEX (PRIMARY) ON job.id = ready.id
WHERE ready.queue = %(queue)s AND ready.type = %(type)s
    AND (ready.turn > %(first_turn)s OR ready.turn = %(first_turn)s AND ready.id >= %(first_id)s)
    AND (ready.turn < %(last_turn)s OR ready.turn = %(last_turn)s AND ready.id <= %(last_id)s)
LIMIT %(limit)s
