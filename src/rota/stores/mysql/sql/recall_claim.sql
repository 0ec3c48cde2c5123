-- Give what claims gave. By primary key.
SELECT claim_id, leases FROM claim WHERE claim_id IN %(claim_ids)s
