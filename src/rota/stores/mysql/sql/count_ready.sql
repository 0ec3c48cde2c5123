-- Count the jobs of a lane between two turns, whoever is taking them. By primary key.
SELECT count(*) FROM ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s AND turn BETWEEN %(first)s AND %(last)s
