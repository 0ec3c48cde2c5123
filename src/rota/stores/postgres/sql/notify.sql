-- Notifications between processes; see notify.py.

-- name: notify
-- Send a notification. It is a hint, so its commit need not wait for the disk.
SELECT pg_notify($1::text, $2::text), set_config('synchronous_commit', 'off', true)
