-- name: append_entry
-- Append an audit entry. Fails on a duplicate number if another process appended at the same time.
INSERT INTO rota_ledger (number, at, actor, action, target, origin, detail, digest)
VALUES (%(number)s, %(at)s, %(actor)s, %(action)s, %(target)s, %(origin)s, %(detail)s, %(digest)s);

-- name: last_entry
-- Read number and digest of the last audit entry. Primary key.
SELECT number, digest FROM rota_ledger ORDER BY number DESC LIMIT 1;

-- name: ledger
-- Read audit entries, newest first. Primary key.
SELECT number, at, actor, action, target, origin, detail, digest
FROM rota_ledger WHERE number < %(before)s ORDER BY number DESC LIMIT %(limit)s;

-- name: upsert_token
-- Insert or replace an API token. Primary key.
REPLACE INTO rota_token (id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: tokens
-- Read all API tokens.
SELECT id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at FROM rota_token ORDER BY id;

-- name: tokens_by_id
-- Read API tokens by id. Primary key.
SELECT id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at
FROM rota_token WHERE id IN %(ids)s ORDER BY id;
