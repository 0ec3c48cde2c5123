-- Give schedules by id. By primary key.
SELECT {schedule_columns} FROM schedule WHERE id IN (SELECT value FROM json_each(?)) ORDER BY name
