-- Give schedules by name. By the unique index on name.
SELECT {schedule_columns} FROM schedule WHERE name IN (SELECT value FROM json_each(?)) ORDER BY name
