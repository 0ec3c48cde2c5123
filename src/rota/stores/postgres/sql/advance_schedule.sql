-- Move a schedule to its next fire time. By primary key.
UPDATE schedule
SET next_fire_at = $2::bigint, last_fire_at = coalesce($3::bigint, last_fire_at),
    last_job_id = coalesce($4::bigint, last_job_id)
WHERE id = $1::bigint
