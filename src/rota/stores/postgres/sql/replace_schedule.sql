-- Replace a schedule that is still at the version it was read at; not if its new name is taken. By primary key.
UPDATE schedule
SET name = $2::text, rule = $3::text, template = $4::text, updated_at = $5::bigint, zone = $6::text,
    catch_up = $7::text, catch_up_limit = $8::bigint, grace = $9::bigint, overlap = $10::text, jitter = $11::bigint,
    start_at = $12::bigint, end_at = $13::bigint, blackouts = $14::text, paused_at = $15::bigint,
    pause_reason = $16::text, next_fire_at = $17::bigint, version = version + 1, app = $19::text
WHERE id = $1::bigint AND version = $18::bigint
    AND NOT EXISTS (SELECT 1 FROM schedule AS other WHERE other.name = $2::text AND other.id <> $1::bigint)
