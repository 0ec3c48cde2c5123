-- Delete a schedule. By primary key.
DELETE FROM schedule WHERE id = $1::bigint
