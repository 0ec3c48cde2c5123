-- Give what became of a schedule's fire times, newest first. By primary key.
SELECT schedule_id, fire_time, fate, job_id
FROM occurrence WHERE schedule_id = %(schedule_id)s AND fire_time < %(before)s ORDER BY fire_time DESC LIMIT %(limit)s
