-- Operations: one action on all jobs of a selection.

-- name: create_operation
-- Store a new operation.
INSERT INTO {schema}rota_operation (id, due_at, version, body)
VALUES ($1::bigint, $2::bigint, $3::bigint + 1, $4::text)
ON CONFLICT DO NOTHING

-- name: replace_operation
-- Replace an operation that still has the version it was read with. By primary key.
UPDATE {schema}rota_operation SET due_at = $2::bigint, version = version + 1, body = $4::text
WHERE id = $1::bigint AND version = $3::bigint

-- name: operations_before
-- Operations, newest first. By primary key.
SELECT id, due_at, version, body FROM {schema}rota_operation WHERE id < $1::bigint ORDER BY id DESC LIMIT $2::bigint

-- name: operation_by_id
-- One operation. By primary key.
SELECT id, due_at, version, body FROM {schema}rota_operation WHERE id = $1::bigint

-- name: due_operations
-- Operations whose next batch is due, the longest due first. Served by rota_operation_due.
SELECT id, due_at, version, body FROM {schema}rota_operation
WHERE due_at IS NOT NULL AND due_at <= $1::bigint
ORDER BY due_at
LIMIT $2::bigint

-- name: delete_old_operations
-- Delete operations that have ended and were created long ago, as their ids say. By primary key.
DELETE FROM {schema}rota_operation WHERE id = ANY(ARRAY(
    SELECT id FROM {schema}rota_operation WHERE id < $1::bigint AND due_at IS NULL ORDER BY id LIMIT $2::bigint
))
