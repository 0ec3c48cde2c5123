-- name: insert_ledger_entry
-- Append an audit entry.
INSERT INTO rota_ledger (number, at, actor, action, target, origin, detail, digest, surface)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: last_ledger_entry
-- Read number and digest of the last audit entry. By primary key.
SELECT number, digest FROM rota_ledger ORDER BY number DESC LIMIT 1

-- name: ledger_entries_before
-- Select audit entries, newest first. By primary key.
SELECT number, at, actor, action, target, origin, detail, digest, surface
FROM rota_ledger WHERE number < ? ORDER BY number DESC LIMIT ?

-- name: save_token
-- Create or change an API token; a revocation is never undone. By primary key.
INSERT INTO rota_token (id, name, digest, role, actions, queues, created_at, expires_at, revoked_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, digest = excluded.digest, role = excluded.role, actions = excluded.actions,
    queues = excluded.queues, created_at = excluded.created_at, expires_at = excluded.expires_at,
    revoked_at = COALESCE(rota_token.revoked_at, excluded.revoked_at)

-- name: tokens_by_id
-- Select API tokens: all, or some by id.
SELECT id, name, digest, role, actions, queues, created_at, expires_at, revoked_at
FROM rota_token WHERE :ids IS NULL OR id IN (SELECT value FROM json_each(:ids)) ORDER BY id
