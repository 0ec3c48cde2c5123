-- Say when upkeep is needed next. One look at the left edge of each of four indexes.
SELECT min(at) FROM (
    SELECT min(run_at) AS at FROM job WHERE state IN ('scheduled', 'retrying')
    UNION ALL
    SELECT min(lease_until) FROM job WHERE state = 'running'
    UNION ALL
    SELECT * FROM (
        SELECT expires_at FROM job
        WHERE expires_at IS NOT NULL AND finished_at IS NULL AND state <> 'running'
        ORDER BY expires_at LIMIT 1
    )
    UNION ALL
    SELECT min(next_fire_at) FROM schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL
)
