-- Forget keys that have been kept for their time and whose job is gone. Served by idempotency_expiry.
DELETE FROM idempotency WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM idempotency
    WHERE expires_at <= $1::bigint AND NOT EXISTS (SELECT 1 FROM any_job WHERE any_job.id = idempotency.job_id OFFSET 0)
    ORDER BY expires_at
    LIMIT $2::bigint
    FOR UPDATE OF idempotency SKIP LOCKED
))
