-- Delete what belongs to pruned jobs.
DELETE FROM tag WHERE job_id = ANY($1::bigint[])
