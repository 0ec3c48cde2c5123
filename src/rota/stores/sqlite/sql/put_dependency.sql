-- Let a job wait for another.
INSERT OR IGNORE INTO dependency (parent, child, need) VALUES (?, ?, ?)
