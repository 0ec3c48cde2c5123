-- Give the jobs of a lane that may be claimed, in the order of their turn. Served by job_turn.
SELECT turn, id
FROM job
WHERE state = 'pending' AND queue = ? AND type = ? AND run_at <= ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY turn, id
LIMIT ?
