-- Delete finished jobs. The state is asked again: nothing unfinished is ever deleted.
DELETE FROM job WHERE id IN (SELECT value FROM json_each(?)) AND finished_at IS NOT NULL
