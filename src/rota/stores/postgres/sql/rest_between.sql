-- Say whether jobs with ids in a range are among those of no day. By primary key.
SELECT id FROM job_done_rest WHERE id >= $1::bigint AND id < $2::bigint LIMIT 1
