-- Give finished jobs past their time that nobody needs any more. By primary key of finished.
SELECT finished.id
FROM finished FORCE INDEX (PRIMARY) STRAIGHT_JOIN job ON job.id = finished.id
WHERE finished.state = %(state)s AND finished.finished_at <= %(before)s
    AND NOT EXISTS (
        SELECT 1 FROM dependency JOIN job AS child ON child.id = dependency.child
        WHERE dependency.parent = job.id AND child.finished_at IS NULL
    )
    AND (job.idempotency_key IS NULL OR NOT EXISTS (
        SELECT 1 FROM idempotency WHERE idempotency.job_id = job.id AND idempotency.expires_at > %(now)s
    ))
ORDER BY finished.finished_at, finished.id
LIMIT %(limit)s
