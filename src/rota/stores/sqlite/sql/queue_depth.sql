-- Count the jobs that wait in a queue for a worker, but no further than asked. Served by job_turn and job_held.
SELECT (
    SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 'pending' AND queue = :queue LIMIT :limit)
) + (
    SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 'queued' AND queue = :queue LIMIT :limit)
)
