-- Say whether a job runs. By primary key.
SELECT 1 FROM job WHERE id = $1::bigint AND lease_until IS NOT NULL
