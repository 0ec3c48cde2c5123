-- Of some pending jobs, give those that nobody has claimed, and keep them so until we are done. By primary key.
SELECT id FROM ready FORCE INDEX (PRIMARY) WHERE (queue, type, turn, id) IN %(keys)s FOR UPDATE
