-- Keep what a claim gave where it gives more than it has leased by itself.
INSERT INTO claim (claim_id, at, leases) VALUES (?, ?, ?)
ON CONFLICT (claim_id) DO UPDATE SET at = excluded.at, leases = excluded.leases
