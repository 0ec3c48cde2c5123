-- Where a claim has found nothing, leave it there for a while, so that whoever brings a job may answer it; and take away
-- the last one of this worker, see open_claims.py. What comes before says what `clock` and `chosen` are.
stay AS (
    INSERT INTO open_claim (claim_id, worker, boot, queues, types, lease, since, until, sign, channel)
    SELECT
        $9::text, $6::text, $7::text, $2::text[], $3::text[], $8::bigint, clock.now, clock.now + $10::bigint, $11::bigint,
        $12::text
    FROM clock
    WHERE $10::bigint IS NOT NULL AND NOT EXISTS (SELECT 1 FROM chosen)
    ON CONFLICT (claim_id) DO NOTHING
),
former AS (
    DELETE FROM open_claim WHERE claim_id = $13::text
)
