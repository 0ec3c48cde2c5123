-- Give the queues from which nothing may be claimed now.
SELECT name FROM queue WHERE paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > %(now)s)
