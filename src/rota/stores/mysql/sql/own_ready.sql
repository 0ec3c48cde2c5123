-- Of some pending jobs of a lane, give those that nobody has claimed, and keep them so until we are done.
-- By primary key, of keys in a list that is a table: led by a list of pairs, a small table would be scanned.
SELECT ready.id
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (turn BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS sought
    STRAIGHT_JOIN ready FORCE INDEX (PRIMARY)
    ON ready.queue = %(queue)s AND ready.type = %(type)s AND ready.turn = sought.turn AND ready.id = sought.id
FOR UPDATE
