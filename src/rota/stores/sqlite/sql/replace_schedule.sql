-- Replace a schedule that is still at the version it was read at; not if its new name is taken.
UPDATE OR IGNORE schedule
SET name = :name, rule = :rule, template = :template, updated_at = :now, zone = :zone, catch_up = :catch_up,
    catch_up_limit = :catch_up_limit, grace = :grace, overlap = :overlap, jitter = :jitter, start_at = :start_at,
    end_at = :end_at, blackouts = :blackouts, paused_at = :paused_at, pause_reason = :pause_reason,
    next_fire_at = :next_fire_at, version = version + 1, app = :app
WHERE id = :id AND version = :version
