-- Give schedules by id. By primary key.
SELECT {schedule_columns} FROM schedule WHERE id IN %(ids)s ORDER BY name
