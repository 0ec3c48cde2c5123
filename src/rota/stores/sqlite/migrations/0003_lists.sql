-- Lists walked back over all jobs and filtered: with millions of them, half a second for a page. By these indexes a list
-- of a lane and a list of a state is read from its end. The conditions are joined with OR, as those of the table are.
CREATE INDEX job_lane ON job (queue, type);
CREATE INDEX job_waiting ON job (state)
WHERE (state = 'pending' OR state = 'scheduled' OR state = 'retrying' OR state = 'blocked' OR state = 'queued');
