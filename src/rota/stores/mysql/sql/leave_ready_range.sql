-- Let all jobs of a lane from one up to another, but not that one, stand there no longer. By primary key. The one that it
-- stops at is locked as well, and must be ours: we would wait for whoever is taking it.
DELETE FROM ready
WHERE queue = %(queue)s AND type = %(type)s
    AND (turn > %(first_turn)s OR turn = %(first_turn)s AND id >= %(first_id)s)
    AND (turn < %(last_turn)s OR turn = %(last_turn)s AND id < %(last_id)s)
