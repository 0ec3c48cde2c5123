-- Create a schedule; refused if its id or name is taken.
INSERT INTO schedule (
    id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
    end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app
) VALUES (
    %(id)s, %(name)s, %(rule)s, %(template)s, %(now)s, %(now)s, %(zone)s, %(catch_up)s, %(catch_up_limit)s, %(grace)s,
    %(overlap)s, %(jitter)s, %(start_at)s, %(end_at)s, %(blackouts)s, %(paused_at)s, %(pause_reason)s, %(next_fire_at)s,
    NULL, NULL, 1, %(app)s
)
