-- Say whether a schedule is still as a firing was planned from. By primary key.
SELECT 1 FROM schedule WHERE id = ? AND version = ? AND next_fire_at IS ? AND paused_at IS NULL
