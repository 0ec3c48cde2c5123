-- Count the finished jobs with ids in a range, by state, but for some. Reads the whole range.
SELECT state, count(*)
FROM job_done
WHERE id >= $1::bigint AND id < $2::bigint AND id <> ALL($3::bigint[])
GROUP BY state
