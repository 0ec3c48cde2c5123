-- Move a schedule to its next fire time. By primary key.
UPDATE schedule
SET next_fire_at = %(next_fire_at)s, last_fire_at = coalesce(%(last_fire_at)s, last_fire_at),
    last_job_id = coalesce(%(last_job_id)s, last_job_id)
WHERE id = %(id)s
