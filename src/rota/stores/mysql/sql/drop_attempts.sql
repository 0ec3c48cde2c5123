-- Delete what belongs to pruned jobs. Served by the primary key.
DELETE attempt FROM attempt FORCE INDEX (PRIMARY) WHERE job_id IN %(ids)s
