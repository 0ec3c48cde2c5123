-- Named advisory locks.

-- name: keep_lock
-- Extend a lock that this holder has. By primary key.
UPDATE {schema}rota_lock SET until = :until::bigint WHERE name = :name::text AND holder = :holder::text

-- name: lock_by_name
-- A lock. By primary key.
SELECT name, holder, fence, since, until FROM {schema}rota_lock WHERE name = :name::text

-- name: count_lock
-- Count the fences of all locks. One transaction at a time takes locks, because it holds this row. By primary key.
INSERT INTO {schema}rota_lock AS counter (name, holder, fence, since, until) VALUES ('', '', 1, 0, 0)
ON CONFLICT (name) DO UPDATE SET fence = counter.fence + 1

-- name: delete_lapsed_locks
-- Delete the locks that lapsed, so that the table stays as small as the number of locks that are held.
DELETE FROM {schema}rota_lock WHERE until <= :now::bigint AND name <> ''

-- name: take_lock
-- Take a lock that is free, with the fence just counted. By primary key.
INSERT INTO {schema}rota_lock (name, holder, fence, since, until)
SELECT :name::text, :holder::text, fence, :now::bigint, :until::bigint FROM {schema}rota_lock WHERE name = ''
ON CONFLICT DO NOTHING

-- name: lock_to_release
-- A lock of this holder, or of any holder (NULL); locks its row. By primary key.
SELECT name, holder, fence, since, until FROM {schema}rota_lock
WHERE name = :name::text AND name <> '' AND (:holder::text IS NULL OR holder = :holder::text)
FOR UPDATE

-- name: delete_lock
-- Release a lock. By primary key.
DELETE FROM {schema}rota_lock WHERE name = :name::text

-- name: held_locks
-- The locks that are held. By primary key.
SELECT name, holder, fence, since, until FROM {schema}rota_lock WHERE name <> '' AND until > :now::bigint ORDER BY name
