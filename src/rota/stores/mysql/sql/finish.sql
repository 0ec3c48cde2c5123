-- Let a job that ended in plain success stand among those that have ended.
INSERT INTO finished (state, finished_at, id) VALUES ('completed', %s, %s)
