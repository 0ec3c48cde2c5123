-- Give tokens: all of them, or some by id.
SELECT id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at
FROM token WHERE :ids IS NULL OR id IN (SELECT value FROM json_each(:ids)) ORDER BY id
