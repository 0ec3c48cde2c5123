-- Delete the waits for pruned jobs. By primary key.
DELETE dependency FROM dependency FORCE INDEX (PRIMARY) WHERE parent IN %(ids)s
