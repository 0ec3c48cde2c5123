-- Create or replace a token. By primary key.
REPLACE INTO token (id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
