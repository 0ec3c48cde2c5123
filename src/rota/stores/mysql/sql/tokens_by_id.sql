-- Give tokens by id. By primary key.
SELECT id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at
FROM token WHERE id IN %(ids)s ORDER BY id
