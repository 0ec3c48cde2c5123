-- Let jobs stand there no longer. By primary key.
-- FORCE INDEX: on a small table a scan looks cheaper, and it would wait for rows that others have locked.
DELETE ready FROM ready FORCE INDEX (PRIMARY) WHERE (queue, type, turn, id) IN %(keys)s
