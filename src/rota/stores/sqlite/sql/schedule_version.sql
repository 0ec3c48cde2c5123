-- Say whether a schedule is still at a version. By primary key.
SELECT 1 FROM schedule WHERE id = ? AND version = ?
