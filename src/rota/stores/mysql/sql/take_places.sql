-- Of some pending jobs of several lanes, in their order, take the first that may be claimed and that nobody is taking; none
-- of a queue that is paused. By primary key, of keys in a list that is a table.
SELECT ready.turn, ready.id
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    queue VARCHAR(255) COLLATE :collation PATH '$[0]',
    type VARCHAR(255) COLLATE :collation PATH '$[1]',
    turn BIGINT PATH '$[2]',
    id BIGINT PATH '$[3]'
)) AS sought
    STRAIGHT_JOIN ready FORCE INDEX (PRIMARY)
    ON ready.queue = sought.queue AND ready.type = sought.type AND ready.turn = sought.turn AND ready.id = sought.id
WHERE ready.run_at <= %(now)s AND (ready.expires_at IS NULL OR ready.expires_at > %(now)s)
    AND NOT EXISTS (
        SELECT 1 FROM queue
        WHERE name = sought.queue AND paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s)
    )
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
