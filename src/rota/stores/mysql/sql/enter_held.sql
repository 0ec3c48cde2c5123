-- Let a job stand where it waits for other jobs, or for a broker.
INSERT INTO held (id, state, queue, type) VALUES (%s, %s, %s, %s)
