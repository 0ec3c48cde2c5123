-- Give unfinished jobs that break a rule which no verb breaks.
SELECT id::text
FROM job
WHERE NOT (
    state IN ('pending', 'running', 'scheduled', 'retrying', 'blocked', 'queued')
    AND finished_at IS NULL
    AND (state <> 'blocked' OR blockers > 0)
    AND attempts BETWEEN 0 AND max_attempts
    AND attempts <= fence
)
ORDER BY id
LIMIT 100
