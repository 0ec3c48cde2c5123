-- name: create_operation
-- Store a new operation.
INSERT OR IGNORE INTO rota_operation (id, due_at, version, body) VALUES (:id, :due_at, 1, :body)

-- name: replace_operation
-- Replace an operation that still has the version that was read. By primary key.
UPDATE rota_operation SET due_at = :due_at, body = :body, version = version + 1 WHERE id = :id AND version = :version

-- name: operations_before
-- Select operations, newest first. By primary key.
SELECT id, due_at, version, body FROM rota_operation WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: operation_by_id
-- Select one operation. By primary key.
SELECT id, due_at, version, body FROM rota_operation WHERE id = :id

-- name: due_operations
-- Select operations whose next batch is due, the longest due first. Index: rota_operation_due.
SELECT id, due_at, version, body FROM rota_operation INDEXED BY rota_operation_due
WHERE due_at IS NOT NULL AND due_at <= :now ORDER BY due_at LIMIT :limit

-- name: delete_old_operations
-- Delete operations that have ended and were created long ago, as their ids say. By primary key.
DELETE FROM rota_operation WHERE id IN (
    SELECT id FROM rota_operation WHERE id < :below AND due_at IS NULL ORDER BY id LIMIT :limit
)
