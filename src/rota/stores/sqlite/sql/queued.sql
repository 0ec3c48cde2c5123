-- Give queued jobs by id. Served by job_held, whose own condition must be repeated, as in queue_depth.sql; a broker's
-- windows keep them few.
SELECT id, queue, type, priority
FROM job INDEXED BY job_held
WHERE state IN ('blocked', 'queued') AND state = 'queued' AND id > :after AND updated_at <= :before
ORDER BY id
LIMIT :limit
