-- Give schedules by name. By the unique index on name.
SELECT {schedule_columns} FROM schedule WHERE name = ANY($1::text[]) ORDER BY name
