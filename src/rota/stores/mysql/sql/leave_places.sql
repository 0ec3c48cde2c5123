-- Let jobs of several lanes stand no longer where they can be claimed. By primary key: see leave_ready.
DELETE ready
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    queue VARCHAR(255) COLLATE :collation PATH '$[0]',
    type VARCHAR(255) COLLATE :collation PATH '$[1]',
    turn BIGINT PATH '$[2]',
    id BIGINT PATH '$[3]'
)) AS leaving
    STRAIGHT_JOIN ready FORCE INDEX (PRIMARY)
    ON ready.queue = leaving.queue AND ready.type = leaving.type AND ready.turn = leaving.turn AND ready.id = leaving.id
