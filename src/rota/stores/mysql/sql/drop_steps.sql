-- Delete what belongs to pruned jobs. Served by the primary key.
DELETE step FROM step FORCE INDEX (PRIMARY) WHERE job_id IN %(ids)s
