-- Let jobs of a state stand no longer among those that have ended. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE finished
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (finished_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS leaving
    STRAIGHT_JOIN finished FORCE INDEX (PRIMARY)
    ON finished.state = %(state)s AND finished.finished_at = leaving.finished_at AND finished.id = leaving.id
