-- Forget claims nobody will repeat. Served by claim_at.
DELETE FROM claim WHERE at <= %(before)s ORDER BY at LIMIT %(limit)s
