-- Give the queues that have settings. By primary key.
SELECT name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version FROM queue ORDER BY name
