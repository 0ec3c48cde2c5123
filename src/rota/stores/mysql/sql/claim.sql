-- Lease jobs to a worker: one attempt and one fence more for each. One that is leased ahead of its time starts at that.
-- By primary key.
INSERT INTO lease (id, fence, worker, boot, lease_until, started_at, updated_at, expires_at)
SELECT
    id, fence + 1, %(worker)s, %(boot)s, %(lease_until)s, greatest(%(now)s, run_at), %(now)s, expires_at
FROM job WHERE id IN %(ids)s
