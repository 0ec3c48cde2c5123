-- Give jobs whose time is yet to come, but soon, the earliest first, the most urgent first among those of one time. Served
-- by job_time, which must be named: SQLite would rather read and sort all of job_later. Only those of one time are sorted.
-- What must run at most once is left out: were its worker to die while it holds it, it would have to be dead, although it
-- never began.
SELECT id
FROM job INDEXED BY job_time
WHERE state IN ('scheduled', 'retrying') AND run_at > :now AND run_at <= :until
    AND delivery <> 'at_most_once'
    AND (expires_at IS NULL OR expires_at > run_at)
    AND queue IN (SELECT value FROM json_each(:queues))
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND queue NOT IN (SELECT name FROM queue WHERE paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > :now))
ORDER BY run_at, priority DESC, id
LIMIT :limit
