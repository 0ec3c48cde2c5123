-- Move schedules to their next fire times. By primary key.
UPDATE schedule
SET next_fire_at = moved.next_fire_at, last_fire_at = coalesce(moved.last_fire_at, schedule.last_fire_at),
    last_job_id = coalesce(moved.last_job_id, schedule.last_job_id)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
    AS moved (id, next_fire_at, last_fire_at, last_job_id)
WHERE schedule.id = moved.id
