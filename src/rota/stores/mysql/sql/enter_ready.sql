-- Let a job stand where it can be claimed.
INSERT INTO ready (queue, type, turn, id, run_at, expires_at) VALUES (%s, %s, %s, %s, %s, %s)
