-- Tell all who listen that something has changed.
SELECT pg_notify('rota', $1::text)
