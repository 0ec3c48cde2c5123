-- name: create_namespace
-- Insert a new namespace. Fails on a duplicate.
INSERT INTO rota_namespace (name, version, body) VALUES (%(name)s, 1, %(body)s);

-- name: replace_namespace
-- Replace a namespace that is still at the version it was read at. Primary key.
UPDATE rota_namespace SET version = version + 1, body = %(body)s WHERE name = %(name)s AND version = %(version)s;

-- name: all_namespaces
-- Read all namespaces: at most some hundreds.
SELECT name, version, body FROM rota_namespace ORDER BY name;
