-- Give schedules whose fire time has come. Served by schedule_due.
SELECT {schedule_columns}
FROM schedule
WHERE paused_at IS NULL AND next_fire_at IS NOT NULL AND next_fire_at <= $1::bigint
ORDER BY next_fire_at, id
LIMIT $2::bigint
