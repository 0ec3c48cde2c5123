-- Delete the waits of and for pruned jobs.
DELETE FROM dependency
WHERE parent IN (SELECT value FROM json_each(:ids)) OR child IN (SELECT value FROM json_each(:ids))
