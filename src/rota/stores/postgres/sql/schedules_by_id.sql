-- Give schedules by id. By primary key.
SELECT {schedule_columns} FROM schedule WHERE id = ANY($1::bigint[]) ORDER BY name
