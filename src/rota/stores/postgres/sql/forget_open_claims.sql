-- Forget claims that nobody waits with any more: their workers have died. Served by open_claim_since.
DELETE FROM open_claim WHERE since <= $1::bigint
