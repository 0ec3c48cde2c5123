-- Say who leads. By primary key.
SELECT name, holder, term, until FROM leader WHERE name = %(name)s
