-- name: keep_lock
-- Extend a lock that this holder has. By primary key.
UPDATE rota_lock SET until = :until WHERE name = :name AND holder = :holder

-- name: lock_by_name
-- Read a lock. By primary key.
SELECT name, holder, fence, since, until FROM rota_lock WHERE name = :name

-- name: delete_lapsed_locks
-- Delete the locks that lapsed, so that the table stays as small as the number of locks that are held.
DELETE FROM rota_lock WHERE until <= :now AND name <> ''

-- name: count_lock
-- Count the fences of all locks. By primary key.
INSERT INTO rota_lock (name, holder, fence, since, until) VALUES ('', '', 1, 0, 0)
ON CONFLICT (name) DO UPDATE SET fence = fence + 1

-- name: take_lock
-- Take a lock that is free, with the fence just counted. By primary key.
INSERT INTO rota_lock (name, holder, fence, since, until)
SELECT :name, :holder, fence, :now, :until FROM rota_lock WHERE name = ''
ON CONFLICT (name) DO NOTHING

-- name: lock_to_release
-- Read a lock of this holder, or of any holder (NULL). By primary key.
SELECT name, holder, fence, since, until FROM rota_lock
WHERE name = :name AND name <> '' AND (:holder IS NULL OR holder = :holder)

-- name: delete_lock
-- Release a lock. By primary key.
DELETE FROM rota_lock WHERE name = :name

-- name: held_locks
-- Select the locks that are held. By primary key.
SELECT name, holder, fence, since, until FROM rota_lock WHERE name <> '' AND until > :now ORDER BY name
