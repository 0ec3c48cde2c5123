-- Replace a queue's settings that are still at the version they were read at. By primary key.
UPDATE queue
SET paused_at = %(paused_at)s, pause_reason = %(pause_reason)s, resume_at = %(resume_at)s, max_depth = %(max_depth)s,
    max_running = %(max_running)s, rate_limit = %(rate_limit)s, version = version + 1
WHERE name = %(name)s AND version = %(version)s
