-- Give what a claim gave. By primary key.
SELECT leases FROM claim WHERE claim_id = $1::text
