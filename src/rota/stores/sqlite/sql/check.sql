-- name: applied_migrations
-- Select the applied migrations. A caller's connection is checked with it: it must lead to a store of this release.
SELECT number, name FROM rota_migration

-- name: integrity_check
-- Let SQLite verify the whole file: pages, indexes and constraints.
PRAGMA integrity_check
