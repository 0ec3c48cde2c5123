-- Append to the ledger.
INSERT INTO ledger (number, at, actor, action, target, origin, detail, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
