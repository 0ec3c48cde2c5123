-- Make jobs of some lanes queued, of each as many as there is room for, in the order of their turn. By the rows' places.
WITH {due_in_lanes}
UPDATE job
SET state = 'queued', updated_at = clock.now
FROM clock, chosen
WHERE job.ctid = chosen.place
RETURNING job.id, job.queue, job.type, job.priority, job.turn, clock.now
