-- Let jobs of a lane stand no longer where they can be claimed. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE ready
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (turn BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS leaving
    STRAIGHT_JOIN ready FORCE INDEX (PRIMARY)
    ON ready.queue = %(queue)s AND ready.type = %(type)s AND ready.turn = leaving.turn AND ready.id = leaving.id
