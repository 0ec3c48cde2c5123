-- Give the attempts of a job that have a row of their own. By primary key.
SELECT job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail
FROM attempt WHERE job_id = $1::bigint ORDER BY fence
