-- The server's time in microseconds. To be asked once in a statement: it goes on while the statement runs.
(extract(epoch FROM clock_timestamp()) * 1000000)::bigint
