-- Take leases away. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE lease
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS leaving
    STRAIGHT_JOIN lease FORCE INDEX (PRIMARY) ON lease.id = leaving.id
