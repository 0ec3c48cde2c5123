-- Say when upkeep is needed next. One look at the left edge of each of four indexes.
SELECT min(at) FROM (
    SELECT min(run_at) AS at FROM job WHERE state IN ('scheduled', 'retrying')
    UNION ALL
    SELECT min(lease_until) FROM job WHERE state = 'running'
    UNION ALL
    SELECT min(expires_at) FROM job WHERE expires_at IS NOT NULL AND state <> 'running'
    UNION ALL
    SELECT min(next_fire_at) FROM schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL
) AS edge
