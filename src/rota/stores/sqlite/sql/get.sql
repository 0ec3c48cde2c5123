-- Give jobs by id. By primary key.
SELECT {job_columns} FROM job WHERE id IN (SELECT value FROM json_each(?))
