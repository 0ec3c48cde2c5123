-- Store one new job that sets nothing beyond what every job sets, unless some queue has a bound of its own. Made for one
-- caller who comes alone, as a transaction by itself.
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE NOT EXISTS (SELECT 1 FROM queue WHERE max_depth IS NOT NULL)
