-- Lease the most urgent jobs of several lanes to a worker: first looks how they are spread, holding nothing, and then
-- takes from each lane its share. Otherwise as claim.sql.
WITH {urgent_lanes},
{due_in_lanes},
{lease_chosen}
SELECT * FROM leased
