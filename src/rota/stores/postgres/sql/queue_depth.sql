-- Count the jobs that wait in a queue for a worker, but no further than asked. Served by job_turn and job_queued.
SELECT (
    SELECT count(*)
    FROM (SELECT 1 FROM job WHERE state = 'pending' AND queue = $1::text LIMIT $2::bigint) AS pending
) + (
    SELECT count(*)
    FROM (SELECT 1 FROM job WHERE state = 'queued' AND queue = $1::text LIMIT $2::bigint) AS queued
)
