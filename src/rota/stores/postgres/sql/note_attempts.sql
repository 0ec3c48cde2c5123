-- Keep what running attempts have to show. By primary key.
INSERT INTO attempt (job_id, fence, worker, boot, started_at, progress, log_tail)
SELECT job.id, job.fence, job.worker, job.boot, job.started_at, note.progress, note.log_tail
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS note (id, progress, log_tail) JOIN job ON job.id = note.id
ON CONFLICT (job_id, fence) DO UPDATE
SET progress = coalesce(excluded.progress, attempt.progress), log_tail = coalesce(excluded.log_tail, attempt.log_tail)
