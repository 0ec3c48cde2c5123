-- Give schedules in the order of their names. By the unique index on name.
SELECT {schedule_columns} FROM schedule WHERE name > $1::text ORDER BY name LIMIT $2::bigint
