-- Record what became of a fire time, once and for all. By primary key.
INSERT OR IGNORE INTO occurrence (schedule_id, fire_time, fate, job_id, at) VALUES (?, ?, ?, ?, ?)
