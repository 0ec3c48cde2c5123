-- name: mark_queued
-- Mark pending jobs as handed to a broker. By primary key.
UPDATE rota_job SET state = 'queued', updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND +state = 'pending'
RETURNING id, queue, type, priority

-- name: return_to_pending
-- Make queued jobs pending again: the broker lost or returned them. By primary key.
UPDATE rota_job SET state = 'pending', updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND +state = 'queued'
RETURNING id

-- name: queued_jobs
-- Select queued jobs by id. Index: rota_job_held, whose condition is repeated, or SQLite does not use it. The dispatch
-- window keeps them few.
SELECT id, queue, type, priority
FROM rota_job INDEXED BY rota_job_held
WHERE state IN ('blocked', 'queued') AND state = 'queued' AND id > :after AND updated_at <= :before
ORDER BY id
LIMIT :limit
