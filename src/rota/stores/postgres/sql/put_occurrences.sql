-- Record what became of fire times, once and for all, and give those that are new. By primary key.
INSERT INTO occurrence (schedule_id, fire_time, fate, job_id, at)
SELECT planned.schedule_id, planned.fire_time, planned.fate, planned.job_id, $5::bigint
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS planned (schedule_id, fire_time, fate, job_id)
ON CONFLICT DO NOTHING
RETURNING schedule_id, fire_time
