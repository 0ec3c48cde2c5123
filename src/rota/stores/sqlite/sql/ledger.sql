-- name: insert_ledger_entry
-- Append an audit entry.
INSERT INTO rota_ledger (number, at, actor, action, target, origin, detail, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: last_ledger_entry
-- Read number and digest of the last audit entry. By primary key.
SELECT number, digest FROM rota_ledger ORDER BY number DESC LIMIT 1

-- name: ledger_entries_before
-- Select audit entries, newest first. By primary key.
SELECT number, at, actor, action, target, origin, detail, digest
FROM rota_ledger WHERE number < ? ORDER BY number DESC LIMIT ?

-- name: save_token
-- Create or replace an API token. By primary key.
INSERT OR REPLACE INTO rota_token (id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: tokens_by_id
-- Select API tokens: all, or some by id.
SELECT id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at
FROM rota_token WHERE :ids IS NULL OR id IN (SELECT value FROM json_each(:ids)) ORDER BY id
