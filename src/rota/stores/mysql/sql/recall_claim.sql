-- Give what a claim gave.
SELECT leases FROM claim WHERE claim_id = %(claim_id)s
