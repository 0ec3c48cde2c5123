-- Say whether a schedule is still as a firing was planned from, and keep it so until we are done. By primary key.
SELECT 1 FROM schedule
WHERE id = %(id)s AND version = %(version)s AND next_fire_at <=> %(planned_for)s AND paused_at IS NULL
FOR UPDATE
