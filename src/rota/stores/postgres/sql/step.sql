-- Give a step. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome FROM step WHERE job_id = $1::bigint AND key = $2::text
