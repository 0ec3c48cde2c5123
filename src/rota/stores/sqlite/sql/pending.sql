-- Give the jobs of a lane that may be claimed, in the order of their turn. Served by job_turn, which must be named.
SELECT turn, id
FROM job INDEXED BY job_turn
WHERE state = 'pending' AND queue = ? AND type = ? AND run_at <= ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY turn, id
LIMIT ?
