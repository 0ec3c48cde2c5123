-- Give tokens: all of them, or some by id.
SELECT id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at
FROM token WHERE $1::text[] IS NULL OR id = ANY($1::text[]) ORDER BY id
