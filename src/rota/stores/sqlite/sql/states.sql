-- Give the states of jobs by id. By primary key.
SELECT id, state FROM job WHERE id IN (SELECT value FROM json_each(?))
