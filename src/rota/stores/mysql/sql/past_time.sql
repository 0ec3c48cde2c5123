-- Give the oldest of each kind of thing that is forgotten one day: finished jobs by state, claims, bells, keys, fire times,
-- entries of the ledger but its last, processes. One look at the left edge of each place; bells and processes are few.
SELECT
    ({clock}),
    (SELECT finished_at FROM finished WHERE state = 'completed' ORDER BY finished_at LIMIT 1),
    (SELECT finished_at FROM finished WHERE state = 'cancelled' ORDER BY finished_at LIMIT 1),
    (SELECT finished_at FROM finished WHERE state = 'dead' ORDER BY finished_at LIMIT 1),
    (SELECT at FROM claim ORDER BY at LIMIT 1),
    (SELECT MIN(at) FROM bell),
    (SELECT expires_at FROM idempotency ORDER BY expires_at LIMIT 1),
    (SELECT at FROM occurrence ORDER BY at LIMIT 1),
    (SELECT at FROM ledger WHERE number < (SELECT MAX(number) FROM ledger) ORDER BY number LIMIT 1),
    (SELECT MIN(seen_at) FROM `member`)
