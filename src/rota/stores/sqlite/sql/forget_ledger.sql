-- Forget the oldest entries of the ledger, never the last: the chain hangs on it. By primary key, from the left.
DELETE FROM ledger WHERE number IN (
    SELECT number FROM ledger
    WHERE at <= :before AND number < (SELECT max(number) FROM ledger)
    ORDER BY number LIMIT :limit
)
