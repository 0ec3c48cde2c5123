-- Give what is on record of some fire times. By primary key.
SELECT schedule_id, fire_time, fate FROM occurrence WHERE (schedule_id, fire_time) IN %(fire_times)s
