-- Delete what belongs to pruned jobs.
DELETE FROM step WHERE job_id IN (SELECT value FROM json_each(?))
