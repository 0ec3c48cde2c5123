-- Let all jobs of a lane between two turns stand there no longer. By primary key.
DELETE FROM ready
WHERE queue = %(queue)s AND type = %(type)s AND turn BETWEEN %(first)s AND %(last)s
