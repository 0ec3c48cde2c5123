-- A wait is over.
UPDATE dependency SET met = 1 WHERE parent = ? AND child = ?
