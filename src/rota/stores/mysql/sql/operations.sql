-- name: create_operation
-- Insert a new operation. Fails on a duplicate.
INSERT INTO rota_operation (id, due_at, version, body) VALUES (%(id)s, %(due_at)s, 1, %(body)s);

-- name: replace_operation
-- Replace an operation that is still at the version it was read at. Primary key.
UPDATE rota_operation SET due_at = %(due_at)s, version = version + 1, body = %(body)s
WHERE id = %(id)s AND version = %(version)s;

-- name: operations_before
-- Read operations, newest first. Primary key.
SELECT id, due_at, version, body FROM rota_operation WHERE id < %(before)s ORDER BY id DESC LIMIT %(limit)s;

-- name: operation_by_id
-- Read one operation. Primary key.
SELECT id, due_at, version, body FROM rota_operation WHERE id = %(id)s;

-- name: due_operations
-- Read operations whose next batch is due, the longest due first. Served by rota_operation_due.
SELECT id, due_at, version, body FROM rota_operation WHERE due_at <= %(now)s ORDER BY due_at LIMIT %(limit)s;

-- name: prune_operations
-- Delete operations that have ended and were created long ago, as their ids say. Primary key.
DELETE FROM rota_operation WHERE id < %(below)s AND due_at IS NULL ORDER BY id LIMIT %(limit)s;
