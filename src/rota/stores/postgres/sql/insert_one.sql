-- Store one new job that sets nothing beyond what every job sets. Otherwise as insert_plain.sql.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now)
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT
    $5::bigint, $6::text, $7::text, $8::smallint,
    CASE WHEN $9::bigint > clock.now THEN 'scheduled' ELSE 'pending' END,
    greatest($9::bigint, clock.now) - $8::smallint * $2::bigint,
    coalesce($9::bigint, clock.now), clock.now, clock.now, $10::bigint, $11::text, $12::text
FROM clock, (
    SELECT least($3::bigint, (SELECT min(max_depth) FROM queue WHERE name = ANY($4::text[]))) AS most OFFSET 0
) AS bound
WHERE (bound.most IS NULL OR pg_relation_size('job') / 8192 * 64 + 100000 < bound.most)
    AND NOT EXISTS (SELECT 1 FROM job_done WHERE job_done.id = $5::bigint)
ON CONFLICT (id) DO NOTHING
RETURNING id, state
