-- Say whether a job still runs under a fence, and let nobody take it away meanwhile. By primary key.
SELECT 1
FROM job
WHERE id = $1::bigint AND fence = $2::bigint AND lease_until IS NOT NULL
FOR NO KEY UPDATE
