-- Give the migrations that this database has seen, by which a guest knows that it is in the right house.
SELECT number, name FROM migration
