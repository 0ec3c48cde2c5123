-- Delete the record of a fire time that was missed and is made up for now. By primary key.
DELETE FROM occurrence WHERE schedule_id = %s AND fire_time = %s AND fate = 'missed'
