-- name: create_webhook
-- Insert a new webhook. Fails on a duplicate.
INSERT INTO rota_webhook (id, version, body) VALUES (%(id)s, 1, %(body)s);

-- name: replace_webhook
-- Replace a webhook that is still at the version it was read at. Primary key.
UPDATE rota_webhook SET version = version + 1, body = %(body)s WHERE id = %(id)s AND version = %(version)s;

-- name: all_webhooks
-- Read all webhooks: a few.
SELECT id, version, body FROM rota_webhook ORDER BY id;
