-- Give the migrations that this database has seen, its name, the time, and the connection's number: by this a guest,
-- whose session was set up by somebody else, knows that it is in the right house.
SELECT number, name, database(), ({clock}), connection_id() FROM migration
