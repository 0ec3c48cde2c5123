-- Give the migrations that this database has seen, its name, whether values that do not fit are refused, the time, and the
-- connection's number: by this a guest, whose session was set up by somebody else, knows that it is in the right house.
SELECT number, name, database(), instr(@@sql_mode, 'STRICT') > 0, ({clock}), connection_id() FROM migration
