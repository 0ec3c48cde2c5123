-- Make jobs of some lanes queued, of each as many as there is room for, in the order of their turn. By the rows' places.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
lane AS MATERIALIZED (
    SELECT lane.*
    FROM unnest($2::text[], $3::text[], $4::text::bigint[], $5::text::bigint[]) AS lane (queue, type, floor, share)
    WHERE NOT EXISTS (
        SELECT 1 FROM queue, clock
        WHERE queue.name = lane.queue AND queue.paused_at IS NOT NULL
            AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
    )
),
{due_in_lanes}
UPDATE job
SET state = 'queued', updated_at = clock.now
FROM clock, chosen
WHERE job.ctid = chosen.place
RETURNING job.id, job.queue, job.type, job.priority, job.turn, clock.now
