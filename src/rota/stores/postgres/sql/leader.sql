-- Say who leads. By primary key.
SELECT name, holder, term, until FROM leader WHERE name = $1::text
