-- Store new jobs that set nothing beyond what every job sets, unless some queue has a bound of its own. Repeated for many
-- rows, of which those without an id are left out; a transaction by itself.
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT *
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS new
WHERE new.column1 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM queue WHERE max_depth IS NOT NULL)
