-- Say whether at least so many finished jobs have ids in a range. By primary key.
SELECT id FROM job_done WHERE id >= $1::bigint AND id < $2::bigint ORDER BY id OFFSET $3::bigint LIMIT 1
