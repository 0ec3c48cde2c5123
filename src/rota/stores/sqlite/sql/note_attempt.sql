-- Keep what a running attempt has to show.
INSERT INTO attempt (job_id, fence, worker, boot, started_at, progress, log_tail)
SELECT id, fence, worker, boot, started_at, :progress, :log_tail FROM job WHERE id = :id
ON CONFLICT (job_id, fence) DO UPDATE
SET progress = coalesce(excluded.progress, progress), log_tail = coalesce(excluded.log_tail, log_tail)
