-- Say whether a schedule is still at a version, and hold it. By primary key.
SELECT 1 FROM schedule WHERE id = $1::bigint AND version = $2::bigint FOR UPDATE
