-- Give the time, and 1 if there may be work of some types in some queues, or of any type in them. It may not be due, or
-- others may have it. Holds nothing. Served by the primary key of ready.
SELECT
    ({clock}),
    (SELECT 1 FROM ready WHERE queue IN %(queues)s AND (%(takes_all)s OR type IN %(types)s) LIMIT 1)
