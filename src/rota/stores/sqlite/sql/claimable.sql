-- Of the jobs that a broker handed over, give those that may be claimed. By primary key.
SELECT turn, id
FROM job
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('pending', 'queued') AND run_at <= :now
    AND (expires_at IS NULL OR expires_at > :now)
    AND queue IN (SELECT value FROM json_each(:queues))
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND queue NOT IN (SELECT name FROM queue WHERE paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > :now))
ORDER BY turn, id
LIMIT :limit
