-- Give the end of the ledger's chain. By primary key.
SELECT number, digest FROM ledger ORDER BY number DESC LIMIT 1
