-- Let some jobs of a lane stand there no longer: those among all from one up to another, but not that one. By primary key:
-- they are found along the line, and their ids are looked up in the list for what may have come between them just now. The
-- one that it stops at is locked as well, and must be ours: we would wait for whoever is taking it. As of a join, though
-- there is none: so it takes a hint, without which few jobs are looked for among all there are, and we would wait for their
-- takers.
DELETE ready FROM ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s
    AND (turn > %(first_turn)s OR turn = %(first_turn)s AND id >= %(first_id)s)
    AND (turn < %(last_turn)s OR turn = %(last_turn)s AND id < %(last_id)s)
    AND id + 0 IN %(ids)s
