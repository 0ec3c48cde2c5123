-- Let one write to the ledger at a time: each entry is bound to the one before it. Readers are not hindered.
LOCK TABLE ledger IN EXCLUSIVE MODE
