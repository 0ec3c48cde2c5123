-- The audit ledger and API tokens.

-- name: lock_ledger
-- Let one transaction write to the ledger at a time: each entry's digest covers the one before. Readers are not
-- blocked.
LOCK TABLE {schema}rota_ledger IN EXCLUSIVE MODE

-- name: last_entry
-- The last entry's number and digest. By primary key.
SELECT number, digest FROM {schema}rota_ledger ORDER BY number DESC LIMIT 1

-- name: append_entry
-- Append an entry.
INSERT INTO {schema}rota_ledger (number, at, actor, action, target, origin, detail, digest, surface)
VALUES (:number::bigint, :at::bigint, :actor::text, :action::text, :target::text, :origin::text, :detail::text, :digest::text, :surface::text)

-- name: ledger_entries
-- Entries, newest first. By primary key.
SELECT number, at, actor, action, target, origin, detail, digest, surface
FROM {schema}rota_ledger WHERE number < :before::bigint ORDER BY number DESC LIMIT :limit::bigint

-- name: save_token
-- Create or change a token; a revocation is never undone. By primary key.
INSERT INTO {schema}rota_token (id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at)
VALUES (
    :id::text, :name::text, :digest::bytea, :role::text, :actions::text, :queues::text, :limits::text, :created_at::bigint, :expires_at::bigint, :revoked_at::bigint
)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, digest = excluded.digest, role = excluded.role, actions = excluded.actions,
    queues = excluded.queues, limits = excluded.limits, created_at = excluded.created_at, expires_at = excluded.expires_at,
    revoked_at = COALESCE(rota_token.revoked_at, excluded.revoked_at)

-- name: tokens
-- All tokens.
SELECT id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at
FROM {schema}rota_token ORDER BY id

-- name: tokens_by_id
-- Tokens by id. By primary key.
SELECT id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at
FROM {schema}rota_token WHERE id = ANY(:keys::text[]) ORDER BY id
