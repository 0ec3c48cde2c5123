-- Let a job stand among those that have ended.
INSERT INTO finished (state, finished_at, id, fingerprint) VALUES (%s, %s, %s, %s)
