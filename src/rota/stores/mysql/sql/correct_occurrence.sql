-- The job of a fire time got another id than planned. By primary key.
UPDATE occurrence SET job_id = %(job_id)s WHERE schedule_id = %(schedule_id)s AND fire_time = %(fire_time)s
