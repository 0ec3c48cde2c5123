-- Record what became of fire times, once and for all, and give those that are new; only that one was missed can change.
-- By primary key.
INSERT INTO occurrence (schedule_id, fire_time, fate, job_id, at)
SELECT planned.schedule_id, planned.fire_time, planned.fate, planned.job_id, $5::bigint
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS planned (schedule_id, fire_time, fate, job_id)
ON CONFLICT (schedule_id, fire_time) DO UPDATE SET fate = excluded.fate, job_id = excluded.job_id, at = excluded.at
WHERE occurrence.fate = 'missed' AND excluded.fate <> 'missed'
RETURNING schedule_id, fire_time
