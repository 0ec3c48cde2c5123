-- Forget claims nobody will repeat. Served by claim_at.
DELETE FROM claim WHERE claim_id IN (SELECT claim_id FROM claim WHERE at <= :before ORDER BY at LIMIT :limit)
