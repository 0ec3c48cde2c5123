-- Delete what belongs to pruned jobs. Served by idempotency_job.
DELETE idempotency FROM idempotency FORCE INDEX (idempotency_job) WHERE job_id IN %(ids)s
