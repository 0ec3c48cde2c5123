-- Circuit breakers, the limits of their jobs while they are open, and counted calls; see breakers.py.

-- name: breakers_by_name
-- Breakers by name. By primary key.
SELECT {breaker_columns} FROM {schema}rota_breaker WHERE name = ANY($1::text[]) ORDER BY name

-- name: breakers_after
-- A page of all breakers by name. By primary key.
SELECT {breaker_columns} FROM {schema}rota_breaker WHERE name > $1::text ORDER BY name LIMIT $2::bigint

-- name: insert_breaker
-- Store a new breaker, unless there is one of this name. By primary key.
INSERT INTO {schema}rota_breaker ({breaker_columns})
VALUES (
    $1::text, $2::double precision, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::text, $8::boolean,
    $9::boolean, $10::bigint, $11::bigint, $12::text, $13::text, $14::bigint, $15::bigint + 1
)
ON CONFLICT DO NOTHING

-- name: update_breaker
-- Change a breaker that still has the version it was read with. By primary key.
UPDATE {schema}rota_breaker
SET failures = $2::double precision, counted = $3::bigint, least = $4::bigint, open_for = $5::bigint,
    probes = $6::bigint, tasks = $7::text, is_open = $8::boolean, is_forced = $9::boolean, since = $10::bigint,
    open_until = $11::bigint, reason = $12::text, set_by = $13::text, opened = $14::bigint, version = $15::bigint + 1
WHERE name = $1::text AND version = $15::bigint

-- name: save_breaker_limit
-- Store the limit of an open breaker. By primary key.
INSERT INTO {schema}rota_limit (name, rate_limit, closed_until, reason, set_by, set_at)
VALUES ($1::text, $2::text, $3::bigint, $4::text, $5::text, $6::bigint)
ON CONFLICT (name) DO UPDATE
SET rate_limit = excluded.rate_limit, closed_until = excluded.closed_until, reason = excluded.reason,
    set_by = excluded.set_by, set_at = excluded.set_at

-- name: limits_of_breaker
-- The limits of tasks that wait for an open breaker. Reads all limits.
SELECT name FROM {schema}rota_limit WHERE breaker = $1::text ORDER BY name

-- name: add_breaker
-- Have the jobs of a task pass the limit of an open breaker. By primary key.
INSERT INTO {schema}rota_limit (name, set_by, set_at, breaker) VALUES ($1::text, '', $2::bigint, $3::text)
ON CONFLICT (name) DO UPDATE SET breaker = excluded.breaker

-- name: remove_breaker
-- Have the jobs of a task no longer pass the limit of a breaker. By primary key.
UPDATE {schema}rota_limit SET breaker = NULL WHERE name = $1::text

-- name: delete_calls
-- Forget the calls that were counted under a name. By primary key.
DELETE FROM {schema}rota_call_count WHERE name = $1::text

-- name: add_calls
-- Add to the calls that a process has counted. By primary key.
INSERT INTO {schema}rota_call_count AS counted (name, slot, source, calls, failures)
SELECT * FROM unnest($1::text[], $2::text::bigint[], $3::text[], $4::text::bigint[], $5::text::bigint[])
ON CONFLICT (name, slot, source) DO UPDATE
SET calls = counted.calls + excluded.calls, failures = counted.failures + excluded.failures

-- name: calls_since
-- The calls that all processes have counted under some names, since a time. By primary key.
SELECT name, slot, calls, failures
FROM {schema}rota_call_count
WHERE name = ANY($1::text[]) AND slot >= $2::bigint

-- name: delete_old_calls
-- Delete calls that no window covers any more.
DELETE FROM {schema}rota_call_count WHERE slot < $1::bigint

-- name: delete_old_breakers
-- Delete breakers that no app defines and that have been closed for long.
DELETE FROM {schema}rota_breaker WHERE tasks = '[]' AND NOT is_open AND NOT is_forced AND since < $1::bigint
