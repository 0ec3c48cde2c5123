-- Give finished jobs with ids in a range that must stay: not yet past the time of their state, waited for by a job that
-- has not ended, or with a key that is still kept. Reads the whole range.
SELECT job_done.id
FROM job_done LEFT JOIN unnest($4::text[], $5::bigint[]) AS kept (state, past) ON kept.state = job_done.state
WHERE job_done.id >= $2::bigint AND job_done.id < $3::bigint AND (
    kept.past IS NULL OR job_done.finished_at > kept.past
    OR EXISTS (
        SELECT 1 FROM dependency JOIN job AS child ON child.id = dependency.child
        WHERE dependency.parent = job_done.id
    )
    OR job_done.idempotency_key IS NOT NULL AND EXISTS (
        SELECT 1 FROM idempotency WHERE idempotency.job_id = job_done.id AND idempotency.expires_at > $1::bigint
    )
)
LIMIT $6::bigint
