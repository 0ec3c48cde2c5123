-- Give a job's steps in the order in which they began. By primary key.
SELECT job_id, key, began_under, began_at, ended_at, outcome FROM step WHERE job_id = $1::bigint ORDER BY number
