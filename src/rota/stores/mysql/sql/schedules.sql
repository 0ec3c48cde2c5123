-- name: create_schedule
-- Insert a schedule. Fails on a duplicate id or name.
INSERT INTO rota_schedule (
    id, name, rule, template, created_at, updated_at, zone, catch_up, catch_up_limit, grace, overlap, jitter, start_at,
    end_at, blackouts, paused_at, pause_reason, next_fire_at, last_fire_at, last_job_id, version, app
) VALUES (
    %(id)s, %(name)s, %(rule)s, %(template)s, %(now)s, %(now)s, %(zone)s, %(catch_up)s, %(catch_up_limit)s, %(grace)s,
    %(overlap)s, %(jitter)s, %(start_at)s, %(end_at)s, %(blackouts)s, %(paused_at)s, %(pause_reason)s, %(next_fire_at)s,
    NULL, NULL, 1, %(app)s
);

-- name: replace_schedule
-- Replace a schedule that is still at the version it was read at. Fails on a duplicate name. Primary key.
UPDATE rota_schedule
SET name = %(name)s, rule = %(rule)s, template = %(template)s, updated_at = %(now)s, zone = %(zone)s,
    catch_up = %(catch_up)s, catch_up_limit = %(catch_up_limit)s, grace = %(grace)s, overlap = %(overlap)s,
    jitter = %(jitter)s, start_at = %(start_at)s, end_at = %(end_at)s, blackouts = %(blackouts)s,
    paused_at = %(paused_at)s, pause_reason = %(pause_reason)s, next_fire_at = %(next_fire_at)s, version = version + 1,
    app = %(app)s
WHERE id = %(id)s AND version = %(version)s;

-- name: schedules
-- Read schedules in the order of names. Served by rota_schedule_name.
SELECT {schedule_columns}
FROM rota_schedule FORCE INDEX (rota_schedule_name) WHERE name > %(after)s ORDER BY name LIMIT %(limit)s;

-- name: schedules_by_id
-- Read schedules by id. Primary key.
SELECT {schedule_columns} FROM rota_schedule WHERE id IN %(keys)s ORDER BY name;

-- name: schedules_by_name
-- Read schedules by name. Served by rota_schedule_name.
SELECT {schedule_columns} FROM rota_schedule WHERE name IN %(keys)s ORDER BY name;

-- name: due_schedules
-- Read schedules whose fire time has come. Served by rota_schedule_due.
SELECT {schedule_columns}
FROM rota_schedule FORCE INDEX (rota_schedule_due)
WHERE paused_at IS NULL AND next_fire_at <= %(now)s
ORDER BY next_fire_at
LIMIT %(limit)s;

-- name: lock_schedules
-- Lock schedules in the order of ids, and read what a firing must have been planned from. Primary key.
SELECT id, version, next_fire_at, paused_at FROM rota_schedule FORCE INDEX (PRIMARY)
WHERE id IN %(ids)s
ORDER BY id
FOR UPDATE;

-- name: advance_schedule
-- Move a schedule to its next fire time. Primary key.
UPDATE rota_schedule
SET next_fire_at = %s, last_fire_at = coalesce(%s, last_fire_at), last_job_id = coalesce(%s, last_job_id)
WHERE id = %s;

-- name: known_occurrences
-- Read the recorded fate of some fire times. Primary key.
SELECT schedule_id, fire_time, fate FROM rota_occurrence WHERE (schedule_id, fire_time) IN %(fire_times)s;

-- name: insert_occurrence
-- Record the fate of a fire time. Fails on a duplicate. Primary key.
INSERT INTO rota_occurrence (schedule_id, fire_time, fate, job_id, at) VALUES (%s, %s, %s, %s, %s);

-- name: delete_missed_occurrence
-- Delete the record of a missed fire time that is caught up now. Primary key.
DELETE FROM rota_occurrence WHERE schedule_id = %s AND fire_time = %s AND fate = 'missed';

-- name: set_occurrence_job
-- Record that the job of a fire time got another id than planned. Primary key.
UPDATE rota_occurrence SET job_id = %(job_id)s WHERE schedule_id = %(schedule_id)s AND fire_time = %(fire_time)s;

-- name: occurrences
-- Read the occurrences of a schedule, newest first. Primary key.
SELECT schedule_id, fire_time, fate, job_id
FROM rota_occurrence WHERE schedule_id = %(schedule_id)s AND fire_time < %(before)s
ORDER BY fire_time DESC LIMIT %(limit)s;

-- name: delete_schedule
-- Delete a schedule. Primary key.
DELETE FROM rota_schedule WHERE id = %(id)s;

-- name: delete_occurrences
-- Delete the occurrences of a schedule. Primary key.
DELETE FROM rota_occurrence WHERE schedule_id = %(id)s;
