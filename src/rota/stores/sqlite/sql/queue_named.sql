-- Give how a queue is set. By primary key.
SELECT name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version FROM queue WHERE name = ?
