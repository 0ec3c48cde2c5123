-- Lease jobs to a worker: one attempt and one fence more for each. By primary key.
UPDATE job
SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = :worker, boot = :boot,
    started_at = :now, lease_until = :lease_until, updated_at = :now
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('pending', 'queued')
RETURNING {claim_columns}
