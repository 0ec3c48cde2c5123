-- Give the jobs of a lane that may be claimed, in the order of their turn, behind a place in the line. By primary key.
SELECT turn, id
FROM ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s
    AND (turn > %(after_turn)s OR turn = %(after_turn)s AND id > %(after_id)s)
    AND run_at <= %(now)s AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY turn, id
LIMIT %(limit)s
