-- Store one new job that is due at once and sets nothing beyond what every job sets, leased to a claim that waits for it,
-- unless its queue is paused or has limits, or some queue has a bound of its own. The state that its row says is not its.
INSERT INTO job (
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
    SELECT 1 FROM queue AS settings
    WHERE settings.max_depth IS NOT NULL
        OR settings.name = new.queue AND (
            settings.max_running IS NOT NULL OR settings.rate_limit IS NOT NULL
            OR settings.paused_at IS NOT NULL
                AND (settings.resume_at IS NULL OR settings.resume_at > new.created_at)
        )
)
