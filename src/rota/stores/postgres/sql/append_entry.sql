-- Append to the ledger.
INSERT INTO ledger (number, at, actor, action, target, origin, detail, digest)
VALUES ($1::bigint, $2::bigint, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text)
