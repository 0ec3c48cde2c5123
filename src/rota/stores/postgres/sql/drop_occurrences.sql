-- Delete a schedule's record of fire times. By primary key.
DELETE FROM occurrence WHERE schedule_id = $1::bigint
