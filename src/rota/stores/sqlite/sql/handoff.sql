-- name: insert_leased_job
-- Store one plain job that is due now as running, leased to a waiting claim. Stores nothing if its queue is paused or
-- has limits, or if some queue has a max_depth. The state in the row of VALUES is ignored.
INSERT INTO rota_job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, worker, boot, started_at, lease_until
)
WITH new (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, worker, boot, started_at, lease_until
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
SELECT
    id, type, queue, priority, 'running', turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, worker, boot, started_at, lease_until
FROM new
WHERE NOT EXISTS (
    SELECT 1 FROM rota_queue AS settings
    WHERE settings.max_depth IS NOT NULL
        OR settings.name = new.queue AND (
            settings.max_running IS NOT NULL OR settings.rate_limit IS NOT NULL
            OR settings.paused_at IS NOT NULL
                AND (settings.resume_at IS NULL OR settings.resume_at > new.created_at)
        )
)
AND NOT EXISTS (SELECT 1 FROM rota_limit WHERE name = 'queue:' || new.queue OR name = 'task:' || new.type)
