-- Hold schedules until we are done, in the order of their ids, and give what a firing must have been planned from. By
-- primary key.
SELECT id, version, next_fire_at, paused_at FROM schedule FORCE INDEX (PRIMARY)
WHERE id IN %(ids)s
ORDER BY id
FOR UPDATE
