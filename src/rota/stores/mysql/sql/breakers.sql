-- name: breakers_by_name
-- Read breakers by name. Primary key.
SELECT {breaker_columns} FROM rota_breaker WHERE name IN %(names)s ORDER BY name;

-- name: breakers_after
-- Read a page of all breakers by name. Primary key.
SELECT {breaker_columns} FROM rota_breaker WHERE name > %(after)s ORDER BY name LIMIT %(limit)s;

-- name: insert_breaker
-- Store a new breaker. Primary key.
INSERT INTO rota_breaker ({breaker_columns})
VALUES (
    %(name)s, %(failures)s, %(counted)s, %(least)s, %(open_for)s, %(probes)s, %(tasks)s, %(is_open)s, %(is_forced)s,
    %(since)s, %(open_until)s, %(reason)s, %(set_by)s, %(opened)s, %(version)s + 1
);

-- name: update_breaker
-- Change a breaker that still has the version it was read with. Primary key.
UPDATE rota_breaker
SET failures = %(failures)s, counted = %(counted)s, least = %(least)s, open_for = %(open_for)s, probes = %(probes)s,
    tasks = %(tasks)s, is_open = %(is_open)s, is_forced = %(is_forced)s, since = %(since)s,
    open_until = %(open_until)s, reason = %(reason)s, set_by = %(set_by)s, opened = %(opened)s,
    version = %(version)s + 1
WHERE name = %(name)s AND version = %(version)s;

-- name: save_breaker_limit
-- Store the limit of an open breaker. Primary key.
INSERT INTO rota_limit (name, rate_limit, closed_until, reason, set_by, set_at)
VALUES (%(name)s, %(rate_limit)s, %(closed_until)s, %(reason)s, %(set_by)s, %(now)s)
ON DUPLICATE KEY UPDATE
    rate_limit = VALUES(rate_limit), closed_until = VALUES(closed_until), reason = VALUES(reason),
    set_by = VALUES(set_by), set_at = VALUES(set_at);

-- name: limits_of_breaker
-- Read the limits of tasks that wait for an open breaker. Reads all limits.
SELECT name FROM rota_limit WHERE breaker = %(breaker)s ORDER BY name;

-- name: add_breaker
-- Have the jobs of a task pass the limit of an open breaker. Primary key.
INSERT INTO rota_limit (name, set_by, set_at, breaker) VALUES (%(name)s, '', %(now)s, %(breaker)s)
ON DUPLICATE KEY UPDATE breaker = VALUES(breaker);

-- name: remove_breaker
-- Have the jobs of a task no longer pass the limit of a breaker. Primary key.
UPDATE rota_limit SET breaker = NULL WHERE name = %(name)s;

-- name: delete_calls
-- Forget the calls that were counted under a name. Primary key.
DELETE FROM rota_call_count WHERE name = %(name)s;

-- name: add_calls
-- Add to the calls that a process has counted. Primary key.
INSERT INTO rota_call_count (name, slot, source, calls, failures) VALUES (%s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE calls = calls + VALUES(calls), failures = failures + VALUES(failures);

-- name: calls_since
-- Read the calls that all processes have counted under some names, since a time. Primary key.
SELECT name, slot, calls, failures FROM rota_call_count WHERE name IN %(names)s AND slot >= %(first)s;

-- name: delete_old_calls
-- Delete calls that no window covers any more.
DELETE FROM rota_call_count WHERE slot < %(before)s;

-- name: delete_old_breakers
-- Delete breakers that no app defines and that have been closed for long.
DELETE FROM rota_breaker WHERE tasks = '[]' AND NOT is_open AND NOT is_forced AND since < %(before)s;
