-- Let jobs stand no longer where they wait for other jobs, or for a broker. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE held
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS leaving
    STRAIGHT_JOIN held FORCE INDEX (PRIMARY) ON held.id = leaving.id
