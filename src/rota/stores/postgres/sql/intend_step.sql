-- Write down the intent to perform a step, once. Steps of a job are numbered: a clock may stand or go back.
INSERT INTO step (job_id, key, number, began_under, began_at)
SELECT $1::bigint, $2::text, 1 + coalesce(max(number), 0), $3::bigint, $4::bigint FROM step WHERE job_id = $1::bigint
ON CONFLICT DO NOTHING
