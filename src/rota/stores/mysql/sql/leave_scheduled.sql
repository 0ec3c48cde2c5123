-- Let jobs stand no longer where they wait for their time. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE scheduled
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (run_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS leaving
    STRAIGHT_JOIN scheduled FORCE INDEX (PRIMARY) ON scheduled.run_at = leaving.run_at AND scheduled.id = leaving.id
