-- Say whether a job runs. By primary key.
SELECT 1 FROM lease WHERE id = %(id)s
