-- Let idempotency keys stand for new jobs, and give those that do: such as were free, or kept for their time with their
-- job ended. Waits for whoever is taking the same key. By primary key.
INSERT INTO idempotency (scope, key, request, job_id, expires_at)
SELECT * FROM unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[])
ON CONFLICT (scope, key) DO UPDATE
SET request = excluded.request, job_id = excluded.job_id, expires_at = excluded.expires_at
WHERE idempotency.expires_at <= $1::bigint
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = idempotency.job_id)
RETURNING scope, key
