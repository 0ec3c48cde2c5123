-- Lease the most urgent jobs of several lanes to a worker: first looks how they are spread, holding nothing, and then
-- takes from each lane its share. If all of that was taken by others meanwhile, it gives one row of nothing; if there was
-- nothing at all, none. Otherwise as claim.sql.
WITH {urgent_lanes},
{due_in_lanes},
{lease_chosen},
{stay}
SELECT leased.*
FROM (SELECT 1 FROM lane LIMIT 1) AS something
LEFT JOIN leased ON true
