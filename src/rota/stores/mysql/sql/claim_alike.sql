-- Lease a job, of which nothing is known beyond its fence, to a worker; the rest was said by share_lease.sql.
INSERT INTO lease (id, fence, worker, boot, lease_until, started_at, updated_at)
    VALUES (%s, %s, @worker, @boot, @lease_until, @now, @now)
