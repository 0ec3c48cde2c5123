-- Write the settings of a queue that has none yet.
INSERT OR IGNORE INTO queue (name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version)
VALUES (:name, :paused_at, :pause_reason, :resume_at, :max_depth, :max_running, :rate_limit, 1)
