-- Lease jobs to a worker ahead of their time, at which they start. By primary key: the state is asked in a way that no
-- index can answer, or SQLite would read all that are delayed. Otherwise as claim.sql.
UPDATE job
SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = :worker, boot = :boot,
    started_at = run_at, lease_until = :lease_until, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND +state IN ('scheduled', 'retrying')
RETURNING {job_columns}
