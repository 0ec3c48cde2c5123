-- Give schedules whose fire time has come. Served by schedule_due.
SELECT {schedule_columns}
FROM schedule FORCE INDEX (schedule_due)
WHERE paused_at IS NULL AND next_fire_at <= %(now)s
ORDER BY next_fire_at
LIMIT %(limit)s
