-- Give those of some fire times that are on record. By primary key.
SELECT schedule_id, fire_time FROM occurrence WHERE (schedule_id, fire_time) IN %(fire_times)s
