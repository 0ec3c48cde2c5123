-- Waits are over. By primary key.
UPDATE dependency FORCE INDEX (PRIMARY) SET met = 1 WHERE (parent, child) IN %(waits)s
