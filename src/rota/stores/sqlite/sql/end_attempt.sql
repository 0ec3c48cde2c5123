-- Remember an attempt that ended in anything but plain success.
INSERT INTO attempt (job_id, fence, worker, boot, started_at, ended_at, event, error, log_tail)
SELECT id, fence, worker, boot, started_at, :now, :event, :error, :log_tail FROM job WHERE id = :id
ON CONFLICT (job_id, fence) DO UPDATE
SET ended_at = excluded.ended_at, event = excluded.event, error = excluded.error,
    log_tail = coalesce(excluded.log_tail, log_tail)
