-- Take the jobs of a lane that may be claimed and that nobody is taking, in the order of their turn, behind a place in the
-- line; none of a queue that is paused. By primary key.
SELECT turn, id
FROM ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s
    AND (turn > %(after_turn)s OR turn = %(after_turn)s AND id > %(after_id)s)
    AND run_at <= %(now)s AND (expires_at IS NULL OR expires_at > %(now)s)
    AND NOT EXISTS (
        SELECT 1 FROM queue
        WHERE name = %(queue)s AND paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s)
    )
ORDER BY turn, id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
