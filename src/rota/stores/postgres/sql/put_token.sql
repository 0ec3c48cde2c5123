-- Create or replace a token. By primary key.
INSERT INTO token (id, name, digest, scopes, queues, created_at, expires_at, revoked_at, last_used_at)
VALUES (
    $1::text, $2::text, $3::bytea, $4::text, $5::text, $6::bigint, $7::bigint, $8::bigint, $9::bigint
)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, digest = excluded.digest, scopes = excluded.scopes, queues = excluded.queues,
    created_at = excluded.created_at, expires_at = excluded.expires_at, revoked_at = excluded.revoked_at,
    last_used_at = excluded.last_used_at
