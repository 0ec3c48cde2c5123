-- Remember an attempt that ended in anything but plain success.
INSERT INTO attempt (job_id, fence, worker, boot, started_at, ended_at, event, error, log_tail)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
    ended_at = VALUES(ended_at), event = VALUES(event), error = VALUES(error),
    log_tail = coalesce(VALUES(log_tail), log_tail)
