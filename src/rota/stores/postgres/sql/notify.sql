-- Tell all who listen that something has changed. A notice is a hint, and its commit need not wait for the disk.
SELECT pg_notify($1::text, $2::text), set_config('synchronous_commit', 'off', true)
