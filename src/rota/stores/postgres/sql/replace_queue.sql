-- Replace a queue's settings that are still at the version they were read at. By primary key.
UPDATE queue
SET paused_at = $2::bigint, pause_reason = $3::text, resume_at = $4::bigint, max_depth = $5::bigint,
    max_running = $6::bigint, rate_limit = $7::text, version = version + 1
WHERE name = $1::text AND version = $8::bigint
