-- Delete what belongs to pruned jobs.
DELETE FROM attempt WHERE job_id = ANY($1::bigint[])
