-- Keep what a claim gave, so that it can be repeated.
INSERT INTO claim (claim_id, at, leases) VALUES (%s, %s, %s)
