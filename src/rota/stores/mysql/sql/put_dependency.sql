-- Let a job wait for another.
INSERT INTO dependency (parent, child, need) VALUES (%s, %s, %s)
