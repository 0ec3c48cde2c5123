-- Keep what a running attempt has to show.
INSERT INTO attempt (job_id, fence, worker, boot, started_at, progress, log_tail)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON DUPLICATE KEY UPDATE
    progress = coalesce(VALUES(progress), progress), log_tail = coalesce(VALUES(log_tail), log_tail)
