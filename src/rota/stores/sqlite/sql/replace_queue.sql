-- Replace a queue's settings that are still at the version they were read at. By primary key.
UPDATE queue
SET paused_at = :paused_at, pause_reason = :pause_reason, resume_at = :resume_at, max_depth = :max_depth,
    max_running = :max_running, rate_limit = :rate_limit, version = version + 1
WHERE name = :name AND version = :version
