-- The job of a fire time got another id than planned. By primary key.
UPDATE occurrence SET job_id = ? WHERE schedule_id = ? AND fire_time = ?
