-- Count the jobs of a lane from one to another, whoever is taking them. By primary key: bulks have one turn, so that a
-- stretch is bounded by ids as well.
SELECT count(*) FROM ready FORCE INDEX (PRIMARY)
WHERE queue = %(queue)s AND type = %(type)s
    AND (turn > %(first_turn)s OR turn = %(first_turn)s AND id >= %(first_id)s)
    AND (turn < %(last_turn)s OR turn = %(last_turn)s AND id <= %(last_id)s)
