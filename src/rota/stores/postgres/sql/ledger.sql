-- Give the ledger's entries, newest first. By primary key.
SELECT number, at, actor, action, target, origin, detail, digest
FROM ledger WHERE number < $1::bigint ORDER BY number DESC LIMIT $2::bigint
