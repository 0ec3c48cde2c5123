-- Create a schedule; not if its id or name is taken.
INSERT INTO schedule (
    id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
    end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app
) VALUES (
    $1::bigint, $2::text, $3::text, $4::text, $5::bigint, $5::bigint, $6::text, $7::text, $8::bigint, $9::bigint,
    $10::text, $11::bigint, $12::bigint, $13::bigint, $14::text, $15::bigint, $16::text, $17::bigint, NULL, NULL,
    $18::bigint + 1, $19::text
)
ON CONFLICT DO NOTHING
