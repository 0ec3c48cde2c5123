-- Give all tokens.
SELECT id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at FROM token ORDER BY id
