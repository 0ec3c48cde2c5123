-- Store one new job that is due at once and sets nothing beyond what every job sets, leased to a claim that waits for it,
-- unless its queue is paused or has limits, or some queue has a bound of its own. The state that its row says is not its.
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, worker, boot, started_at, lease_until
)
SELECT ?1, ?2, ?3, ?4, 'running', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18
WHERE NOT EXISTS (
    SELECT 1 FROM queue
    WHERE max_depth IS NOT NULL
        OR name = ?3 AND (
            max_running IS NOT NULL OR rate_limit IS NOT NULL
            OR paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > ?8)
        )
)
