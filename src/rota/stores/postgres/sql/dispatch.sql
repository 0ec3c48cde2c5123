-- Jobs handed to an external broker.

-- name: dispatch_jobs
-- Make jobs of some lanes queued, of each lane as many as there is room for, in the order of their turn; none
-- that a limit concerns. By physical row position.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
limited AS MATERIALIZED ({limited_lanes}),
lane AS MATERIALIZED (
    SELECT lane.*
    FROM unnest($2::text[], $3::text[], $4::text::bigint[], $5::text::bigint[]) AS lane (queue, type, floor, share)
    WHERE NOT EXISTS (
        SELECT 1 FROM {schema}rota_queue AS queue, clock
        WHERE queue.name = lane.queue AND queue.paused_at IS NOT NULL
            AND (queue.resume_at IS NULL OR queue.resume_at > clock.now)
    )
    AND NOT EXISTS (SELECT 1 FROM limited WHERE limited.name = 'queue:' || lane.queue)
    AND NOT EXISTS (SELECT 1 FROM limited WHERE limited.name = 'task:' || lane.type)
),
{due_in_lanes}
UPDATE {schema}rota_job AS job
SET state = 'queued', updated_at = clock.now
FROM clock, chosen
WHERE job.ctid = chosen.place
RETURNING job.id, job.queue, job.type, job.priority, job.turn, clock.now

-- name: recall_jobs
-- Make queued jobs pending again. Skips locked rows: these are being claimed, ended or recalled. By primary key.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM unnest($2::bigint[]) AS wanted (id) JOIN {schema}rota_job AS job ON job.id = wanted.id
    WHERE job.state || '' = 'queued'
    FOR UPDATE OF job SKIP LOCKED
)
UPDATE {schema}rota_job AS job
SET state = 'pending', updated_at = clock.now
FROM clock, chosen
WHERE job.ctid = chosen.place
RETURNING job.id

-- name: queued_jobs
-- Queued jobs by id. Served by rota_job_queued, which holds no others; the broker's windows keep them few.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
line AS MATERIALIZED (SELECT id, queue, type, priority, updated_at FROM {schema}rota_job
WHERE state = 'queued' AND queue >= '')
SELECT line.id, line.queue, line.type, line.priority
FROM line, clock
WHERE line.id > $2::bigint AND line.updated_at <= clock.now - $3::bigint
ORDER BY line.id
LIMIT $4::bigint
