-- Let a job be found by the schedule that made it.
INSERT INTO fired (schedule_id, job_id) VALUES (%s, %s)
