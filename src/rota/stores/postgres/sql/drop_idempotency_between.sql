-- Delete what belongs to the jobs of a day that is dropped: not what some that stay, or have not ended, still need.
DELETE FROM idempotency
WHERE job_id >= $1::bigint AND job_id < $2::bigint AND job_id <> ALL($3::bigint[])
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = idempotency.job_id)
