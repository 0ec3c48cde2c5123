-- name: lock_ledger
-- Nothing: the number of an entry is unique, and a transaction that took one too late is run again.

-- name: append_entry
-- Append an audit entry. Fails on a duplicate number if another process appended at the same time.
INSERT INTO rota_ledger (number, at, actor, action, target, origin, detail, digest, surface)
VALUES (%(number)s, %(at)s, %(actor)s, %(action)s, %(target)s, %(origin)s, %(detail)s, %(digest)s, %(surface)s);

-- name: last_entry
-- Read number and digest of the last audit entry. Primary key.
SELECT number, digest FROM rota_ledger ORDER BY number DESC LIMIT 1;

-- name: ledger_entries
-- Read audit entries, newest first. Primary key.
SELECT number, at, actor, action, target, origin, detail, digest, surface
FROM rota_ledger WHERE number < %(before)s ORDER BY number DESC LIMIT %(limit)s;

-- name: save_token
-- Insert or change an API token; a revocation is never undone. Primary key.
INSERT INTO rota_token (id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at)
VALUES (%(id)s, %(name)s, %(digest)s, %(role)s, %(actions)s, %(queues)s, %(limits)s, %(created_at)s, %(expires_at)s, %(revoked_at)s)
ON DUPLICATE KEY UPDATE
    name = VALUES(name), digest = VALUES(digest), role = VALUES(role), actions = VALUES(actions),
    queues = VALUES(queues), limits = VALUES(limits), created_at = VALUES(created_at),
    expires_at = VALUES(expires_at),
    revoked_at = COALESCE(revoked_at, VALUES(revoked_at));

-- name: tokens
-- Read all API tokens.
SELECT id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at FROM rota_token ORDER BY id;

-- name: tokens_by_id
-- Read API tokens by id. Primary key.
SELECT id, name, digest, role, actions, queues, limits, created_at, expires_at, revoked_at
FROM rota_token WHERE id IN %(keys)s ORDER BY id;
