-- Record what became of a fire time, once and for all; only that it was missed can change. By primary key.
INSERT INTO occurrence (schedule_id, fire_time, fate, job_id, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (schedule_id, fire_time) DO UPDATE SET fate = excluded.fate, job_id = excluded.job_id, at = excluded.at
WHERE occurrence.fate = 'missed' AND excluded.fate <> 'missed'
