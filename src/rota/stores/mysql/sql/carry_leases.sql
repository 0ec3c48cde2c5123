-- Lease jobs, of which nothing is known beyond their fences, to a worker: in bulk, see flight.py.
INSERT INTO lease (id, fence, worker, boot, lease_until, started_at, updated_at) VALUES (%s, %s, %s, %s, %s, %s, %s)
