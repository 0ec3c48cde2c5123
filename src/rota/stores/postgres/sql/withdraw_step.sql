-- Forget the intent to perform a step. By primary key.
DELETE FROM step WHERE job_id = $1::bigint AND key = $2::text AND ended_at IS NULL
