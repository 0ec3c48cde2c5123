-- name: insert_job
-- Store a new job with all its fields.
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, expires_at, timeout, delivery,
    backoff, payload, idempotency_key, concurrency_key, tags, meta, blockers, on_success, on_failure, parent_id,
    schedule_id, fire_time
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_plain
-- Store plain jobs: those that set only the fields that every job sets. The row of VALUES is repeated.
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_plain_job_at_once
-- Store one plain job as a transaction of its own, unless some queue has a max_depth: then nothing is stored.
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE NOT EXISTS (SELECT 1 FROM rota_queue WHERE max_depth IS NOT NULL)

-- name: insert_plain_jobs_at_once
-- Store plain jobs as a transaction of its own, unless some queue has a max_depth. The row of VALUES is repeated; rows
-- without an id are padding and left out.
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT *
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS new
WHERE new.column1 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM rota_queue WHERE max_depth IS NOT NULL)

-- name: insert_equal_jobs
-- Store plain jobs that differ only in id and payload. The row of VALUES is repeated.
INSERT INTO rota_job (
    type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, id, payload
)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, new.column1, new.column2
FROM (VALUES (?, ?)) AS new

-- name: insert_equal_jobs_at_once
-- Store plain jobs that differ only in id and payload as a transaction of its own, unless some queue has a max_depth.
-- The row of VALUES is repeated; rows without an id are padding and left out.
INSERT INTO rota_job (
    type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, id, payload
)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, new.column1, new.column2
FROM (VALUES (?, ?)) AS new
WHERE new.column1 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM rota_queue WHERE max_depth IS NOT NULL)

-- name: insert_tag
-- Index a job by one of its tags.
INSERT OR IGNORE INTO rota_tag (tag, job_id) VALUES (?, ?)
