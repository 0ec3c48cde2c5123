-- name: append_entry
-- Append an audit entry.
INSERT INTO rota_ledger (number, at, actor, action, target, origin, detail, digest, surface)
VALUES (:number, :at, :actor, :action, :target, :origin, :detail, :digest, :surface)

-- name: last_entry
-- Read number and digest of the last audit entry. By primary key.
SELECT number, digest FROM rota_ledger ORDER BY number DESC LIMIT 1

-- name: ledger_entries
-- Select audit entries, newest first. By primary key.
SELECT number, at, actor, action, target, origin, detail, digest, surface
FROM rota_ledger WHERE number < :before ORDER BY number DESC LIMIT :limit

-- name: save_token
-- Create or change an API token; a revocation is never undone. By primary key.
INSERT INTO rota_token (id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at)
VALUES (:id, :name, :digest, :role, :actions, :queues, :limits, :created_at, :expires_at, :revoked_at)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, digest = excluded.digest, role = excluded.role, actions = excluded.actions,
    queues = excluded.queues, limits = excluded.limits, created_at = excluded.created_at, expires_at = excluded.expires_at,
    revoked_at = COALESCE(rota_token.revoked_at, excluded.revoked_at)

-- name: tokens
-- Select all API tokens.
SELECT id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at FROM rota_token ORDER BY id

-- name: tokens_by_id
-- Select API tokens by id. By primary key.
SELECT id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at
FROM rota_token WHERE id IN (SELECT value FROM json_each(:keys)) ORDER BY id
