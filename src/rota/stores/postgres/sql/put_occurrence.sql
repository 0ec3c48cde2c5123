-- Record what became of a fire time, once and for all. By primary key.
INSERT INTO occurrence (schedule_id, fire_time, fate, job_id, at)
VALUES ($1::bigint, $2::bigint, $3::text, $4::bigint, $5::bigint)
ON CONFLICT DO NOTHING
