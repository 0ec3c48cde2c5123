-- Replace a schedule that is still at the version it was read at; refused if its new name is taken.
UPDATE schedule
SET name = %(name)s, rule = %(rule)s, template = %(template)s, updated_at = %(now)s, zone = %(zone)s,
    catch_up = %(catch_up)s, catch_up_limit = %(catch_up_limit)s, grace = %(grace)s, overlap = %(overlap)s,
    jitter = %(jitter)s, start_at = %(start_at)s, end_at = %(end_at)s, blackouts = %(blackouts)s,
    paused_at = %(paused_at)s, pause_reason = %(pause_reason)s, next_fire_at = %(next_fire_at)s, version = version + 1,
    app = %(app)s
WHERE id = %(id)s AND version = %(version)s
