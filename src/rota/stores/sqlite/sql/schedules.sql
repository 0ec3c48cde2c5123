-- name: create_schedule
-- Create a schedule; not if its id or name is taken.
INSERT OR IGNORE INTO rota_schedule (
    id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
    end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app
) VALUES (
    :id, :name, :rule, :template, :now, :now, :zone, :catch_up, :catch_up_limit, :grace, :overlap, :jitter, :start_at,
    :end_at, :blackouts, :paused_at, :pause_reason, :next_fire_at, NULL, NULL, 1, :app
)

-- name: replace_schedule
-- Replace a schedule that is still at the version it was read at; not if its new name is taken.
UPDATE OR IGNORE rota_schedule
SET name = :name, rule = :rule, template = :template, updated_at = :now, zone = :zone, catch_up = :catch_up,
    catch_up_limit = :catch_up_limit, grace = :grace, overlap = :overlap, jitter = :jitter, start_at = :start_at,
    end_at = :end_at, blackouts = :blackouts, paused_at = :paused_at, pause_reason = :pause_reason,
    next_fire_at = :next_fire_at, version = version + 1, app = :app
WHERE id = :id AND version = :version

-- name: schedules
-- Select schedules by name, one page. By the unique index on name.
SELECT {schedule_columns} FROM rota_schedule WHERE name > :after ORDER BY name LIMIT :limit

-- name: schedules_by_id
-- Select schedules by id. By primary key.
SELECT {schedule_columns} FROM rota_schedule WHERE id IN (SELECT value FROM json_each(:keys)) ORDER BY name

-- name: schedules_by_name
-- Select schedules by name. By the unique index on name.
SELECT {schedule_columns} FROM rota_schedule WHERE name IN (SELECT value FROM json_each(:keys)) ORDER BY name

-- name: due_schedules
-- Select schedules whose fire time has come. Index: rota_schedule_due.
SELECT {schedule_columns}
FROM rota_schedule
WHERE paused_at IS NULL AND next_fire_at IS NOT NULL AND next_fire_at <= :now
ORDER BY next_fire_at
LIMIT :limit

-- name: schedule_has_version
-- Check that a schedule still has a version. By primary key.
SELECT 1 FROM rota_schedule WHERE id = ? AND version = ?

-- name: schedule_is_unchanged
-- Check that a schedule has not changed since a firing was planned. By primary key.
SELECT 1 FROM rota_schedule WHERE id = ? AND version = ? AND next_fire_at IS ? AND paused_at IS NULL

-- name: advance_schedule
-- Move a schedule to its next fire time. By primary key.
UPDATE rota_schedule
SET next_fire_at = :next_fire_at, last_fire_at = coalesce(:last_fire_at, last_fire_at),
    last_job_id = coalesce(:last_job_id, last_job_id)
WHERE id = :id

-- name: delete_schedule
-- Delete a schedule. By primary key.
DELETE FROM rota_schedule WHERE id = :id

-- name: save_occurrence
-- Record the fate of a fire time, once; only `missed` may be replaced later. By primary key.
INSERT INTO rota_occurrence (schedule_id, fire_time, fate, job_id, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (schedule_id, fire_time) DO UPDATE SET fate = excluded.fate, job_id = excluded.job_id, at = excluded.at
WHERE rota_occurrence.fate = 'missed' AND excluded.fate <> 'missed'

-- name: update_job_of_occurrence
-- Correct the job of an occurrence whose planned id was taken. By primary key.
UPDATE rota_occurrence SET job_id = ? WHERE schedule_id = ? AND fire_time = ?

-- name: delete_occurrences
-- Delete the occurrences of a schedule. By primary key.
DELETE FROM rota_occurrence WHERE schedule_id = :id

-- name: occurrences
-- Select the occurrences of a schedule, newest first. By primary key.
SELECT schedule_id, fire_time, fate, job_id
FROM rota_occurrence WHERE schedule_id = :schedule_id AND fire_time < :before ORDER BY fire_time DESC LIMIT :limit
