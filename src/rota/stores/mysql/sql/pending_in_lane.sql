-- Give the first jobs of a lane that may be claimed, behind a place in the line and up to a turn, with the lane's number. By
-- primary key. One part of a statement that asks for many lanes: lanes.py repeats it and numbers the lanes.
SELECT :number, turn, id
FROM ready FORCE INDEX (PRIMARY)
WHERE queue = %s AND type = %s AND (turn > %s OR turn = %s AND id > %s) AND turn <= %s
    AND run_at <= %s AND (expires_at IS NULL OR expires_at > %s)
ORDER BY turn, id
LIMIT %s
