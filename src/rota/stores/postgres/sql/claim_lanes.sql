-- Lease the most urgent jobs of several lanes to a worker: first looks how they are spread, holding nothing, and then
-- takes from each lane its share. If all of that was taken by others meanwhile, it gives one row of nothing; if there was
-- nothing at all, none. Last in each row stands whether the worker's last claim was still open, if that was asked; if not,
-- there is always a row, and one more of nothing does no harm. Otherwise as claim.sql.
WITH {urgent_lanes},
{due_in_lanes},
{lease_chosen},
{stay}
SELECT leased.*, $14::text IS NULL OR EXISTS (SELECT 1 FROM former)
FROM (
    SELECT 1 FROM lane
    UNION ALL
    SELECT 1 WHERE $14::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM former)
    LIMIT 1
) AS something
LEFT JOIN leased ON true
