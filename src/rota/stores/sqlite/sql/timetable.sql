-- Say when upkeep is needed next, of each kind. One look at the left edge of each of four indexes, of which the first
-- must be named: SQLite would rather read all of job_later.
SELECT
    (SELECT min(run_at) FROM job INDEXED BY job_time WHERE state IN ('scheduled', 'retrying')),
    (SELECT min(lease_until) FROM job WHERE state = 'running'),
    (
        SELECT expires_at FROM job
        WHERE expires_at IS NOT NULL AND finished_at IS NULL AND state <> 'running'
        ORDER BY expires_at LIMIT 1
    ),
    (SELECT min(next_fire_at) FROM schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL)
