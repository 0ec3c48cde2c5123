-- Give the lowest turn in a lane that is below a given one. Served by job_turn.
SELECT turn
FROM job
WHERE state = 'pending' AND queue = $1::text AND type = $2::text AND turn < $3::bigint
ORDER BY turn
LIMIT 1
