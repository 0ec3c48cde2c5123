-- Hold schedules, in the order of their ids, and give what a firing must have been planned from. By primary key.
SELECT id, version, next_fire_at, paused_at FROM schedule WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE
