-- Give the leases of jobs, and keep them as they are until we are done. By primary key.
SELECT id, fence, cancel_requested_at, worker, boot, started_at, expires_at
FROM lease FORCE INDEX (PRIMARY) WHERE id IN %(ids)s ORDER BY id FOR UPDATE
