-- name: breakers_by_name
-- Select breakers by name. By primary key.
SELECT {breaker_columns} FROM rota_breaker WHERE name IN (SELECT value FROM json_each(?)) ORDER BY name

-- name: breakers_after
-- Select a page of all breakers by name. By primary key.
SELECT {breaker_columns} FROM rota_breaker WHERE name > ? ORDER BY name LIMIT ?

-- name: insert_breaker
-- Store a new breaker, unless there is one of this name. By primary key.
INSERT INTO rota_breaker ({breaker_columns})
VALUES (
    :name, :failures, :counted, :least, :open_for, :probes, :tasks, :is_open, :is_forced, :since, :open_until, :reason,
    :set_by, :opened, :version + 1
)
ON CONFLICT DO NOTHING

-- name: update_breaker
-- Change a breaker that has still the version that was read. By primary key.
UPDATE rota_breaker
SET failures = :failures, counted = :counted, least = :least, open_for = :open_for, probes = :probes, tasks = :tasks,
    is_open = :is_open, is_forced = :is_forced, since = :since, open_until = :open_until, reason = :reason,
    set_by = :set_by, opened = :opened, version = :version + 1
WHERE name = :name AND version = :version

-- name: save_breaker_limit
-- Store the limit of an open breaker. By primary key.
INSERT INTO rota_limit (name, rate_limit, closed_until, reason, set_by, set_at)
VALUES (:name, :rate_limit, :closed_until, :reason, :set_by, :now)
ON CONFLICT (name) DO UPDATE
SET rate_limit = excluded.rate_limit, closed_until = excluded.closed_until, reason = excluded.reason,
    set_by = excluded.set_by, set_at = excluded.set_at

-- name: limits_of_breaker
-- Select the limits of tasks that wait for an open breaker. Reads all limits.
SELECT name FROM rota_limit WHERE breaker = ? ORDER BY name

-- name: add_breaker
-- Have the jobs of a task pass the limit of an open breaker. By primary key.
INSERT INTO rota_limit (name, set_by, set_at, breaker) VALUES (:name, '', :now, :breaker)
ON CONFLICT (name) DO UPDATE SET breaker = excluded.breaker

-- name: remove_breaker
-- Have the jobs of a task no longer pass the limit of a breaker. By primary key.
UPDATE rota_limit SET breaker = NULL WHERE name = ?

-- name: delete_calls
-- Forget the calls that were counted under a name. By primary key.
DELETE FROM rota_call_count WHERE name = ?

-- name: add_calls
-- Add to the calls that a process has counted. By primary key.
INSERT INTO rota_call_count (name, slot, source, calls, failures) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, slot, source) DO UPDATE
SET calls = calls + excluded.calls, failures = failures + excluded.failures

-- name: calls_since
-- Select the calls that all processes have counted under some names, since a time. By primary key.
SELECT name, slot, calls, failures
FROM rota_call_count
WHERE name IN (SELECT value FROM json_each(?)) AND slot >= ?

-- name: delete_old_calls
-- Delete calls that no window covers any more.
DELETE FROM rota_call_count WHERE slot < ?

-- name: delete_old_breakers
-- Delete breakers that no app defines and that have been closed for long.
DELETE FROM rota_breaker WHERE tasks = '[]' AND is_open = 0 AND is_forced = 0 AND since < ?
