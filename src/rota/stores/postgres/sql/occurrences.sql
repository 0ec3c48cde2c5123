-- Give what became of a schedule's fire times, newest first. By primary key.
SELECT schedule_id, fire_time, fate, job_id
FROM occurrence
WHERE schedule_id = $1::bigint AND fire_time < $2::bigint
ORDER BY fire_time DESC
LIMIT $3::bigint
