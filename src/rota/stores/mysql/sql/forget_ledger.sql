-- Forget the oldest entries of the ledger, never the last: the chain hangs on it. By primary key, from the left.
DELETE FROM ledger WHERE at <= %(before)s AND number < %(last)s ORDER BY number LIMIT %(limit)s
