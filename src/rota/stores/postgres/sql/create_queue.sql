-- Write the settings of a queue that has none yet.
INSERT INTO queue (name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version)
VALUES ($1::text, $2::bigint, $3::text, $4::bigint, $5::bigint, $6::bigint, $7::text, $8::bigint + 1)
ON CONFLICT DO NOTHING
