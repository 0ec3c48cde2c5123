-- Watch the latest start of jobs no longer. By primary key.
-- By keys in a list that is a table: MariaDB takes no hint for a DELETE, and a scan would wait for others' rows.
DELETE expiry
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (expires_at BIGINT PATH '$[0]', id BIGINT PATH '$[1]')) AS leaving
    STRAIGHT_JOIN expiry FORCE INDEX (PRIMARY) ON expiry.expires_at = leaving.expires_at AND expiry.id = leaving.id
