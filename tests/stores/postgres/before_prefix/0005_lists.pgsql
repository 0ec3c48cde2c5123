-- Lists walked back over all jobs and filtered: with millions of them, half a second for a page. By this index a list of
-- jobs that wait is read from its end.
CREATE INDEX job_waiting ON job (state, id) WHERE state IN ('pending', 'scheduled', 'retrying', 'blocked', 'queued');
