-- Find the next type, in the order of names, that has pending jobs in a queue: a step of a loose scan of job_turn.
SELECT type FROM job INDEXED BY job_turn WHERE state = 'pending' AND queue = ? AND type >= ? ORDER BY type LIMIT 1
