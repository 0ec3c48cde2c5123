-- Make queued jobs pending again, but none that somebody holds: it is being claimed, ended or recalled. By primary key.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
chosen AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM unnest($2::bigint[]) AS wanted (id) JOIN job ON job.id = wanted.id
    WHERE job.state || '' = 'queued'
    FOR UPDATE OF job SKIP LOCKED
)
UPDATE job
SET state = 'pending', updated_at = clock.now
FROM clock, chosen
WHERE job.ctid = chosen.place
RETURNING job.id
