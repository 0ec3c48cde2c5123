-- The job of a fire time got another id than planned. By primary key.
UPDATE occurrence SET job_id = $1::bigint WHERE schedule_id = $2::bigint AND fire_time = $3::bigint
