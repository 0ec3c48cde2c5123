-- Take an open claim away, if it is still there. Waits for whoever is just answering it. By primary key.
DELETE FROM open_claim WHERE claim_id = $1::text
