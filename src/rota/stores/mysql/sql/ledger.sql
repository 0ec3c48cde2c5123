-- Give the ledger's entries, newest first. By primary key.
SELECT number, at, actor, action, target, origin, detail, digest
FROM ledger WHERE number < %(before)s ORDER BY number DESC LIMIT %(limit)s
