-- Say when upkeep is needed next, and the time: the earliest due job, lease end, expiry and fire time. One look at the
-- left edge of each of four indexes; those that everything passes through from where the last look has found their edge.
SELECT
    {clock},
    (SELECT min(run_at) FROM job WHERE state IN ('scheduled', 'retrying') AND run_at >= $1::bigint),
    (SELECT min(lease_until) FROM job WHERE state = 'running' AND lease_until >= $2::bigint),
    (SELECT min(expires_at) FROM job WHERE expires_at IS NOT NULL AND state <> 'running'),
    (SELECT min(next_fire_at) FROM schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL)
