-- Store one new job that is due at once and takes no notice along, and give the time that it got; otherwise as
-- insert_one. It is not prepared for an id that is taken at the same moment: whoever meets the error takes a closer look.
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload
)
SELECT
    $3::bigint, $4::text, $5::text, $6::smallint, 'pending', clock.now - $6::smallint * $2::bigint, clock.now, clock.now,
    clock.now, $7::bigint, $8::text, $9::text
FROM (SELECT coalesce($1::bigint, {clock}) AS now OFFSET 0) AS clock
WHERE $3::bigint BETWEEN {first}::bigint AND {last}::bigint
    AND NOT EXISTS (SELECT 1 FROM queue WHERE name = $5::text AND max_depth IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM job WHERE id = $3::bigint)
    AND NOT EXISTS (
        SELECT 1 FROM job_done WHERE id = $3::bigint AND id BETWEEN {first}::bigint AND {last}::bigint
    )
RETURNING created_at
