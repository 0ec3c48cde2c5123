-- Store one new job that sets nothing beyond what every job sets, unless its queue has a bound of its own. Made for one
-- caller who comes alone: everything that a batch would share costs it twice. It may take a notice along, see hearing.py.
-- It is made for some ids, and looks into no part of the archive that can have none of them, see archive.py.
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT
    $3::bigint, $4::text, $5::text, $6::smallint,
    CASE WHEN $7::bigint > clock.now THEN 'scheduled' ELSE 'pending' END,
    greatest($7::bigint, clock.now) - $6::smallint * $2::bigint,
    coalesce($7::bigint, clock.now), clock.now, clock.now, $8::bigint, $9::text, $10::text
FROM (SELECT coalesce($1::bigint, {clock}) AS now OFFSET 0) AS clock
WHERE $3::bigint BETWEEN {first}::bigint AND {last}::bigint
    AND NOT EXISTS (SELECT 1 FROM queue WHERE name = $5::text AND max_depth IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM job WHERE id = $3::bigint)
    AND NOT EXISTS (
        SELECT 1 FROM job_done WHERE id = $3::bigint AND id BETWEEN {first}::bigint AND {last}::bigint
    )
ON CONFLICT (id) DO NOTHING
RETURNING id, state, created_at, CASE WHEN $11::text IS NOT NULL THEN pg_notify($11::text, $12::text)::text END
