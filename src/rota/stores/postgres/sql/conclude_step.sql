-- Write down that a step's effect happened; the first outcome stays. By primary key.
UPDATE step SET ended_at = $1::bigint, outcome = $2::text
WHERE job_id = $3::bigint AND key = $4::text AND ended_at IS NULL
