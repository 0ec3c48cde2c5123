-- Delete what belongs to pruned jobs.
DELETE FROM step WHERE job_id = ANY($1::bigint[])
