-- Let jobs stand there no longer. By primary key.
-- FORCE INDEX: on a small table a scan looks cheaper, and it would wait for rows that others have locked.
DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE (state, finished_at, id) IN %(keys)s
