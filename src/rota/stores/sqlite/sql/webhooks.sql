-- name: create_webhook
-- Store a new webhook.
INSERT OR IGNORE INTO rota_webhook (id, version, body) VALUES (:id, 1, :body)

-- name: replace_webhook
-- Replace a webhook that still has the version that was read. By primary key.
UPDATE rota_webhook SET body = :body, version = version + 1 WHERE id = :id AND version = :version

-- name: all_webhooks
-- Select all webhooks: a few.
SELECT id, version, body FROM rota_webhook ORDER BY id
