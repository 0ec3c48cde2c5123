-- Ask jobs to stop if they run, under whatever fence. By primary key.
UPDATE job SET cancel_requested_at = coalesce(job.cancel_requested_at, $1::bigint), updated_at = $1::bigint
FROM unnest($2::bigint[]) AS asked (id)
WHERE job.id = asked.id AND job.lease_until IS NOT NULL
