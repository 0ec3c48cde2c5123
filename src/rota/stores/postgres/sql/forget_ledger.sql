-- Forget the oldest entries of the ledger, never the last: the chain hangs on it. By primary key, from the left.
DELETE FROM ledger WHERE number = ANY(ARRAY(
    SELECT number FROM ledger
    WHERE at <= $1::bigint AND number < (SELECT max(number) FROM ledger)
    ORDER BY number
    LIMIT $2::bigint
))
