-- Extend the leases that still hold. By primary key.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now)
UPDATE job SET lease_until = clock.now + renewal.lease
FROM clock, unnest($2::text::bigint[], $3::text::bigint[], $4::text::bigint[]) AS renewal (id, fence, lease)
WHERE job.id = renewal.id AND job.fence = renewal.fence AND job.lease_until IS NOT NULL
RETURNING job.id, job.lease_until, job.cancel_requested_at IS NOT NULL
