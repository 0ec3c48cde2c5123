-- Let a job stand where its latest start is watched.
INSERT INTO expiry (expires_at, id) VALUES (%s, %s)
