-- Take or keep the lead if nobody else holds it. By primary key.
INSERT INTO leader (name, holder, term, until) VALUES (:name, :holder, 1, :until)
ON CONFLICT (name) DO UPDATE
SET term = term + (holder <> excluded.holder), holder = excluded.holder, until = excluded.until
WHERE holder = excluded.holder OR until <= :now
