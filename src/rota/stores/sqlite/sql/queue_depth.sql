-- Count the jobs that wait in a queue for a worker, but no further than asked. Served by job_turn and job_held, whose
-- own condition must be repeated word for word, or SQLite does not see that it holds.
SELECT (
    SELECT count(*)
    FROM (SELECT 1 FROM job INDEXED BY job_turn WHERE state = 'pending' AND queue = :queue LIMIT :limit)
) + (
    SELECT count(*)
    FROM (
        SELECT 1 FROM job INDEXED BY job_held
        WHERE state IN ('blocked', 'queued') AND state = 'queued' AND queue = :queue
        LIMIT :limit
    )
)
