id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app
