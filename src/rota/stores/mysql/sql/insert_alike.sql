-- Store pending jobs that differ in id and payload only; what they have in common was said by share.sql.
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
) VALUES (%s, @type, @queue, @priority, 'pending', @turn, @run_at, @now, @now, @max_attempts, @delivery, %s)
