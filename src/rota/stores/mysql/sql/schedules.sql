-- Give schedules in the order of their names. By the unique key on name.
SELECT {schedule_columns} FROM schedule FORCE INDEX (schedule_name) WHERE name > %(after)s ORDER BY name LIMIT %(limit)s
