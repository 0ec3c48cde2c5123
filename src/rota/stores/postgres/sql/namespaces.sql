-- Namespaces: the other stores of this deployment.

-- name: create_namespace
-- Store a new namespace.
INSERT INTO {schema}rota_namespace (name, version, body) VALUES (:name::text, :version::bigint + 1, :body::text)
ON CONFLICT DO NOTHING

-- name: replace_namespace
-- Replace a namespace that still has the version it was read with. By primary key.
UPDATE {schema}rota_namespace SET version = version + 1, body = :body::text WHERE name = :name::text AND version = :version::bigint

-- name: all_namespaces
-- All namespaces: at most some hundreds.
SELECT name, version, body FROM {schema}rota_namespace ORDER BY name
