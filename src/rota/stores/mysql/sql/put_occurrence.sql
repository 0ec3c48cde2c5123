-- Record what became of a fire time, once and for all: refused if it is known. By primary key.
INSERT INTO occurrence (schedule_id, fire_time, fate, job_id, at)
VALUES (%(schedule_id)s, %(fire_time)s, %(fate)s, %(job_id)s, %(now)s)
