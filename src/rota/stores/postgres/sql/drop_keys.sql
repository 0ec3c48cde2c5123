-- Delete what belongs to pruned jobs. Served by idempotency_job.
DELETE FROM idempotency WHERE job_id = ANY($1::bigint[])
