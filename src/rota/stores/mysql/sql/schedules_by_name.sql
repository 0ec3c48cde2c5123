-- Give schedules by name. By the unique key on name.
SELECT {schedule_columns} FROM schedule WHERE name IN %(names)s ORDER BY name
