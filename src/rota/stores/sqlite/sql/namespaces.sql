-- name: create_namespace
-- Store a new namespace.
INSERT OR IGNORE INTO rota_namespace (name, version, body) VALUES (:name, 1, :body)

-- name: replace_namespace
-- Replace a namespace that still has the version that was read. By primary key.
UPDATE rota_namespace SET body = :body, version = version + 1 WHERE name = :name AND version = :version

-- name: all_namespaces
-- Select all namespaces: at most some hundreds.
SELECT name, version, body FROM rota_namespace ORDER BY name
