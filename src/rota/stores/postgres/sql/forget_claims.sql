-- Forget claims nobody will repeat. Served by claim_at.
DELETE FROM claim WHERE claim_id = ANY(ARRAY(
    SELECT claim_id FROM claim WHERE at <= $1::bigint ORDER BY at LIMIT $2::bigint
))
