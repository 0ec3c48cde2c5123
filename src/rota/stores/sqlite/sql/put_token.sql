-- Create or replace a token. By primary key.
INSERT OR REPLACE INTO token (id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
