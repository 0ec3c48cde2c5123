-- Move a schedule to its next fire time. By primary key.
UPDATE schedule
SET next_fire_at = %s, last_fire_at = coalesce(%s, last_fire_at), last_job_id = coalesce(%s, last_job_id)
WHERE id = %s
