-- Record what became of a fire time, once and for all: refused if it is known. By primary key.
INSERT INTO occurrence (schedule_id, fire_time, fate, job_id, at) VALUES (%s, %s, %s, %s, %s)
