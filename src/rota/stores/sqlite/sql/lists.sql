-- name: select_jobs
-- First part of a list of jobs; listing.py adds the conditions. By primary key.
SELECT {job_columns} FROM rota_job

-- name: select_light_jobs
-- The same for a list without payloads and results. By primary key.
SELECT {light_job_columns} FROM rota_job

-- name: count_jobs
-- The same for a count. By primary key.
SELECT count(*) FROM rota_job

-- name: next_queue
-- Find the next queue name: one step of a loose index scan of rota_job_lane.
SELECT queue FROM rota_job INDEXED BY rota_job_lane WHERE queue >= ? ORDER BY queue LIMIT 1

-- name: next_type_of_queue
-- Find the next type name of a queue: one step of a loose index scan of rota_job_lane.
SELECT type FROM rota_job INDEXED BY rota_job_lane WHERE queue = ? AND type >= ? ORDER BY type LIMIT 1
