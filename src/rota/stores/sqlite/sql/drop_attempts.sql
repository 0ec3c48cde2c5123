-- Delete what belongs to pruned jobs.
DELETE FROM attempt WHERE job_id IN (SELECT value FROM json_each(?))
