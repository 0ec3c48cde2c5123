-- The beginning of a search for jobs; reading.py adds the conditions. By primary key, from the right.
SELECT {job_columns} FROM any_job
