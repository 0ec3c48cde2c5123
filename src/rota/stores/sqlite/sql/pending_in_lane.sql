-- Give the first jobs of a lane that may be claimed, with the lane's number. Served by job_turn, which must be named. One
-- part of a statement that asks for many lanes: leasing.py repeats it.
SELECT * FROM (
    SELECT {number}, turn, id
    FROM job INDEXED BY job_turn
    WHERE state = 'pending' AND queue = ? AND type = ? AND turn <= ?
        AND run_at <= ? AND (expires_at IS NULL OR expires_at > ?)
    ORDER BY turn, id
    LIMIT ?
)
