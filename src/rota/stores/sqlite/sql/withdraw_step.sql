-- Forget the intent to perform a step. By primary key.
DELETE FROM step WHERE job_id = ? AND key = ? AND ended_at IS NULL
