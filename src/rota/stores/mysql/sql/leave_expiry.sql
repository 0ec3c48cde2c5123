-- Let jobs stand there no longer. By primary key.
-- FORCE INDEX: on a small table a scan looks cheaper, and it would wait for rows that others have locked.
DELETE expiry FROM expiry FORCE INDEX (PRIMARY) WHERE (expires_at, id) IN %(keys)s
