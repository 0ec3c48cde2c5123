-- Write the settings of a queue that has none yet; refused if it has.
INSERT INTO queue (name, paused_at, pause_reason, resume_at, max_depth, max_running, rate_limit, version)
VALUES (
    %(name)s, %(paused_at)s, %(pause_reason)s, %(resume_at)s, %(max_depth)s, %(max_running)s, %(rate_limit)s, 1
)
