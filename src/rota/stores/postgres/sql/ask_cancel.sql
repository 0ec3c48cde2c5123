-- Ask running jobs to stop. By primary key. Asked twice, the first time counts.
UPDATE job SET cancel_requested_at = coalesce(job.cancel_requested_at, $1::bigint), updated_at = $1::bigint
FROM unnest($2::bigint[], $3::bigint[]) AS asked (id, fence)
WHERE job.id = asked.id AND job.fence = asked.fence AND job.lease_until IS NOT NULL
RETURNING job.id, job.fence
