-- Where a claim has found nothing, leave it there for a while, so that whoever brings a job may answer it; and take away
-- the last one of this worker, which tells whether somebody has answered that, see open_claims.py. What comes before says
-- what `clock` and `chosen` are. The last one goes by another name than this, or this does not stay.
former AS (
    DELETE FROM open_claim WHERE claim_id = $14::text RETURNING claim_id
),
stay AS (
    INSERT INTO open_claim (claim_id, worker, boot, lanes, lease, since, until, sign, channel)
    SELECT
        $9::text, $6::text, $7::text, $10::text[], $8::bigint, clock.now, clock.now + $11::bigint, $12::bigint, $13::text
    FROM clock
    WHERE $11::bigint IS NOT NULL AND NOT EXISTS (SELECT 1 FROM chosen)
    ON CONFLICT (claim_id) DO NOTHING
)
