-- Forget old fire times. Served by occurrence_at. Never the fire times still to come.
DELETE FROM occurrence WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM occurrence
    WHERE at <= $1::bigint AND fire_time <= $1::bigint
    ORDER BY at
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
))
