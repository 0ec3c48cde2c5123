-- Webhooks: addresses that are notified of events.

-- name: create_webhook
-- Store a new webhook.
INSERT INTO {schema}rota_webhook (id, version, body) VALUES (:id::text, :version::bigint + 1, :body::text)
ON CONFLICT DO NOTHING

-- name: replace_webhook
-- Replace a webhook that still has the version it was read with. By primary key.
UPDATE {schema}rota_webhook SET version = version + 1, body = :body::text WHERE id = :id::text AND version = :version::bigint

-- name: all_webhooks
-- All webhooks: a few.
SELECT id, version, body FROM {schema}rota_webhook ORDER BY id
