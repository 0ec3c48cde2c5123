-- Let a job stand where it waits for its time.
INSERT INTO scheduled (run_at, id, state, queue, type) VALUES (%s, %s, %s, %s, %s)
