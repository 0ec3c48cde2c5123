-- Create a schedule; not if its id or name is taken.
INSERT OR IGNORE INTO schedule (
    id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
    end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app
) VALUES (
    :id, :name, :rule, :template, :now, :now, :zone, :catch_up, :catch_up_limit, :grace, :overlap, :jitter, :start_at,
    :end_at, :blackouts, :paused_at, :pause_reason, :next_fire_at, NULL, NULL, 1, :app
)
