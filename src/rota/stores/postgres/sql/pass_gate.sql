-- Let nobody else count and fill these queues until we are done. In the order of the locks, whoever comes.
SELECT pg_advisory_xact_lock(gate.number)
FROM (
    SELECT DISTINCT hashtextextended(queue, 0) AS number FROM unnest($1::text[]) AS bounded (queue) ORDER BY number
) AS gate
