-- Give the time, and when upkeep is needed next, of each kind. One look at the left edge of each of four places.
SELECT
    ({clock}),
    (SELECT run_at FROM scheduled ORDER BY run_at LIMIT 1),
    (SELECT lease_until FROM lease ORDER BY lease_until LIMIT 1),
    (
        SELECT expires_at FROM expiry WHERE NOT EXISTS (SELECT 1 FROM lease WHERE lease.id = expiry.id)
        ORDER BY expires_at LIMIT 1
    ),
    (
        SELECT next_fire_at FROM schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL
        ORDER BY next_fire_at LIMIT 1
    )
