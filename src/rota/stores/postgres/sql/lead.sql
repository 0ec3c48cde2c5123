-- Take or keep the lead if nobody else holds it. By primary key.
INSERT INTO leader (name, holder, term, until) VALUES ($1::text, $2::text, 1, $3::bigint)
ON CONFLICT (name) DO UPDATE
SET term = leader.term + (leader.holder <> excluded.holder)::integer, holder = excluded.holder, until = excluded.until
WHERE leader.holder = excluded.holder OR leader.until <= $4::bigint
