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
VALUES ($1::bigint, $2::bigint, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text)

-- name: ledger_entries
-- Entries, newest first. By primary key.
SELECT number, at, actor, action, target, origin, detail, digest, surface
FROM {schema}rota_ledger WHERE number < $1::bigint ORDER BY number DESC LIMIT $2::bigint

-- name: upsert_token
-- Create or change a token; a revocation is never undone. By primary key.
INSERT INTO {schema}rota_token (id, name, digest, role, actions, queues, created_at, expires_at, revoked_at)
VALUES (
    $1::text, $2::text, $3::bytea, $4::text, $5::text, $6::text, $7::bigint, $8::bigint, $9::bigint
)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, digest = excluded.digest, role = excluded.role, actions = excluded.actions,
    queues = excluded.queues, created_at = excluded.created_at, expires_at = excluded.expires_at,
    revoked_at = COALESCE(rota_token.revoked_at, excluded.revoked_at)

-- name: tokens
-- All tokens, or some by id.
SELECT id, name, digest, role, actions, queues, created_at, expires_at, revoked_at
FROM {schema}rota_token WHERE $1::text[] IS NULL OR id = ANY($1::text[]) ORDER BY id
