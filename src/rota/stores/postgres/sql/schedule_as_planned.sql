-- Say whether a schedule is still as a firing was planned from, and hold it. By primary key.
SELECT 1
FROM schedule
WHERE id = $1::bigint AND version = $2::bigint AND next_fire_at IS NOT DISTINCT FROM $3::bigint AND paused_at IS NULL
FOR UPDATE
