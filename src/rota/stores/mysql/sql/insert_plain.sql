-- Store new jobs that set nothing beyond what every job sets.
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
