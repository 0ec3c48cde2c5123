-- Lease the jobs that were chosen: one attempt and one fence more for each. A claim with a name is remembered, so that it
-- can be repeated. What comes before says what `clock` and `chosen` are.
leased AS (
    UPDATE job
    SET state = 'running', fence = fence + 1, attempts = attempts + 1, worker = $6::text, boot = $7::text,
        started_at = clock.now, lease_until = clock.now + $8::bigint, updated_at = clock.now
    FROM clock, chosen
    WHERE job.ctid = chosen.place
    RETURNING {claim_columns}
),
remembered AS (
    INSERT INTO claim (claim_id, at, leases)
    SELECT $9::text, min(started_at), json_agg(json_build_array(id, fence) ORDER BY turn, id)
    FROM leased WHERE $9::text IS NOT NULL HAVING count(*) > 0
)
