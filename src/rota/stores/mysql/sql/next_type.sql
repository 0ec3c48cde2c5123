-- Find the next type, in the order of names, that has pending jobs in a queue which is not paused, and the first of them:
-- a step of a loose scan of ready.
SELECT type, turn, id
FROM ready
WHERE queue = %(queue)s AND type >= %(floor)s
    AND NOT EXISTS (
        SELECT 1 FROM queue
        WHERE name = %(queue)s AND paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s)
    )
ORDER BY type, turn, id
LIMIT 1
