-- Find the next type, in the order of names, that has pending jobs in a queue: a step of a loose scan of ready.
SELECT type FROM ready WHERE queue = %(queue)s AND type >= %(floor)s ORDER BY type LIMIT 1
