-- Operations: one action on all jobs of a selection.

-- name: create_operation
-- Store a new operation.
INSERT INTO {schema}rota_operation (id, due_at, version, body)
VALUES (:id::bigint, :due_at::bigint, :version::bigint + 1, :body::text)
ON CONFLICT DO NOTHING

-- name: replace_operation
-- Replace an operation that still has the version it was read with. By primary key.
UPDATE {schema}rota_operation SET due_at = :due_at::bigint, version = version + 1, body = :body::text
WHERE id = :id::bigint AND version = :version::bigint

-- name: operations_before
-- Operations, newest first. By primary key.
SELECT id, due_at, version, body FROM {schema}rota_operation WHERE id < :before::bigint ORDER BY id DESC LIMIT :limit::bigint

-- name: operation_by_id
-- One operation. By primary key.
SELECT id, due_at, version, body FROM {schema}rota_operation WHERE id = :id::bigint

-- name: due_operations
-- Operations whose next batch is due, the longest due first. Served by rota_operation_due.
SELECT id, due_at, version, body FROM {schema}rota_operation
WHERE due_at IS NOT NULL AND due_at <= :now::bigint
ORDER BY due_at
LIMIT :limit::bigint

-- name: delete_old_operations
-- Delete operations that have ended and were created long ago, as their ids say. By primary key.
DELETE FROM {schema}rota_operation WHERE id = ANY(ARRAY(
    SELECT id FROM {schema}rota_operation WHERE id < $1::bigint AND due_at IS NULL ORDER BY id LIMIT $2::bigint
))
