-- Schedules and their occurrences.

-- name: create_schedule
-- Create a schedule, unless its id or name is taken.
INSERT INTO {schema}rota_schedule (
    id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
    end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app
) VALUES (
    :id::bigint, :name::text, :rule::text, :template::text, :now::bigint, :now::bigint, :zone::text, :catch_up::text, :catch_up_limit::bigint, :grace::bigint,
    :overlap::text, :jitter::bigint, :start_at::bigint, :end_at::bigint, :blackouts::text, :paused_at::bigint, :pause_reason::text, :next_fire_at::bigint, NULL, NULL,
    :version::bigint + 1, :app::text
)
ON CONFLICT DO NOTHING

-- name: replace_schedule
-- Replace a schedule that still has the version it was read with, unless its new name is taken. By primary key.
UPDATE {schema}rota_schedule
SET name = :name::text, rule = :rule::text, template = :template::text, updated_at = :now::bigint, zone = :zone::text,
    catch_up = :catch_up::text, catch_up_limit = :catch_up_limit::bigint, grace = :grace::bigint, overlap = :overlap::text, jitter = :jitter::bigint,
    start_at = :start_at::bigint, end_at = :end_at::bigint, blackouts = :blackouts::text, paused_at = :paused_at::bigint,
    pause_reason = :pause_reason::text, next_fire_at = :next_fire_at::bigint, version = version + 1, app = :app::text
WHERE id = :id::bigint AND version = :version::bigint
    AND NOT EXISTS (SELECT 1 FROM {schema}rota_schedule AS other WHERE other.name = :name::text AND other.id <> :id::bigint)

-- name: schedules
-- Schedules in the order of their names. Served by the unique index on name.
SELECT {schedule_columns} FROM {schema}rota_schedule WHERE name > :after::text ORDER BY name LIMIT :limit::bigint

-- name: schedules_by_id
-- Schedules by id. By primary key.
SELECT {schedule_columns} FROM {schema}rota_schedule WHERE id = ANY(:keys::bigint[]) ORDER BY name

-- name: schedules_by_name
-- Schedules by name. Served by the unique index on name.
SELECT {schedule_columns} FROM {schema}rota_schedule WHERE name = ANY(:keys::text[]) ORDER BY name

-- name: due_schedules
-- Schedules whose fire time has come. Served by rota_schedule_due.
SELECT {schedule_columns}
FROM {schema}rota_schedule
WHERE paused_at IS NULL AND next_fire_at IS NOT NULL AND next_fire_at <= :now::bigint
ORDER BY next_fire_at, id
LIMIT :limit::bigint

-- name: lock_schedules
-- Lock schedules in the order of their ids, and return what a firing must have been planned from. By primary key.
SELECT id, version, next_fire_at, paused_at FROM {schema}rota_schedule WHERE id = ANY($1::bigint[])
ORDER BY id FOR UPDATE

-- name: advance_schedules
-- Move schedules to their next fire times. By primary key.
UPDATE {schema}rota_schedule AS schedule
SET next_fire_at = moved.next_fire_at, last_fire_at = coalesce(moved.last_fire_at, schedule.last_fire_at),
    last_job_id = coalesce(moved.last_job_id, schedule.last_job_id)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
    AS moved (id, next_fire_at, last_fire_at, last_job_id)
WHERE schedule.id = moved.id

-- name: delete_schedule
-- Delete a schedule. By primary key.
DELETE FROM {schema}rota_schedule WHERE id = :id::bigint

-- name: insert_occurrences
-- Record the fate of fire times, and return those that are new; only `missed` can be changed later. By primary key.
INSERT INTO {schema}rota_occurrence AS occurrence (schedule_id, fire_time, fate, job_id, at)
SELECT planned.schedule_id, planned.fire_time, planned.fate, planned.job_id, $5::bigint
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS planned (schedule_id, fire_time, fate, job_id)
ON CONFLICT (schedule_id, fire_time) DO UPDATE SET fate = excluded.fate, job_id = excluded.job_id, at = excluded.at
WHERE occurrence.fate = 'missed' AND excluded.fate <> 'missed'
RETURNING schedule_id, fire_time

-- name: set_occurrence_job
-- Set the job of an occurrence that got another id than planned. By primary key.
UPDATE {schema}rota_occurrence SET job_id = $1::bigint WHERE schedule_id = $2::bigint AND fire_time = $3::bigint

-- name: occurrences
-- The occurrences of a schedule, newest first. By primary key.
SELECT schedule_id, fire_time, fate, job_id
FROM {schema}rota_occurrence
WHERE schedule_id = :schedule_id::bigint AND fire_time < :before::bigint
ORDER BY fire_time DESC
LIMIT :limit::bigint

-- name: delete_occurrences
-- Delete all occurrences of a schedule. By primary key.
DELETE FROM {schema}rota_occurrence WHERE schedule_id = :id::bigint
