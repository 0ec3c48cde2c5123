-- name: keep_lock
-- Extend a lock that this holder has. Primary key.
UPDATE rota_lock SET until = %(until)s WHERE name = %(name)s AND holder = %(holder)s;

-- name: lock_by_name
-- Read a lock. Primary key.
SELECT name, holder, fence, since, until FROM rota_lock WHERE name = %(name)s;

-- name: count_lock
-- Count the fences of all locks. One transaction at a time takes locks, because it holds this row. Primary key.
INSERT INTO rota_lock (name, holder, fence, since, until) VALUES ('', '', 1, 0, 0)
ON DUPLICATE KEY UPDATE fence = fence + 1;

-- name: delete_lapsed_locks
-- Delete the locks that lapsed, so that the table stays as small as the number of locks that are held.
DELETE FROM rota_lock WHERE until <= %(now)s AND name <> '';

-- name: take_lock
-- Take a lock that is free, with the fence just counted. Primary key.
INSERT INTO rota_lock (name, holder, fence, since, until)
SELECT %(name)s, %(holder)s, fence, %(now)s, %(until)s FROM rota_lock WHERE name = '';

-- name: lock_to_release
-- Read a lock of this holder, or of any holder (NULL), and lock its row. Primary key.
SELECT name, holder, fence, since, until FROM rota_lock
WHERE name = %(name)s AND name <> '' AND (%(holder)s IS NULL OR holder = %(holder)s) FOR UPDATE;

-- name: delete_lock
-- Release a lock. Primary key.
DELETE FROM rota_lock WHERE name = %(name)s;

-- name: held_locks
-- Read the locks that are held. Primary key.
SELECT name, holder, fence, since, until FROM rota_lock WHERE name <> '' AND until > %(now)s ORDER BY name;
