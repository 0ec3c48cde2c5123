-- Of some jobs, give those that are dead or cancelled and that nobody needs any more. By primary key.
SELECT id, state
FROM job
WHERE id IN (SELECT value FROM json_each(:ids)) AND (state = 'dead' OR state = 'cancelled')
    AND NOT EXISTS (
        SELECT 1 FROM dependency JOIN job AS child ON child.id = dependency.child
        WHERE dependency.parent = job.id AND child.finished_at IS NULL
    )
    AND (idempotency_key IS NULL OR NOT EXISTS (
        SELECT 1 FROM idempotency WHERE idempotency.job_id = job.id AND expires_at > :now
    ))
ORDER BY id
