-- Give how often each other writer has made work.
SELECT origin, number, at FROM bell WHERE origin NOT LIKE %(ours)s ORDER BY origin
