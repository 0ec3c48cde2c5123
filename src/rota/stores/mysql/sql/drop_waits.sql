-- Delete the waits of pruned jobs. Served by dependency_child.
DELETE dependency FROM dependency FORCE INDEX (dependency_child) WHERE child IN %(ids)s
