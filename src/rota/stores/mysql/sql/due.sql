-- Say when upkeep is needed next. One look at the left edge of each of four places.
SELECT min(at) FROM (
    (SELECT run_at AS at FROM scheduled ORDER BY run_at LIMIT 1)
    UNION ALL
    (SELECT lease_until FROM lease ORDER BY lease_until LIMIT 1)
    UNION ALL
    (
        SELECT expires_at FROM expiry WHERE NOT EXISTS (SELECT 1 FROM lease WHERE lease.id = expiry.id)
        ORDER BY expires_at LIMIT 1
    )
    UNION ALL
    (
        SELECT next_fire_at FROM schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL
        ORDER BY next_fire_at LIMIT 1
    )
) AS edge
