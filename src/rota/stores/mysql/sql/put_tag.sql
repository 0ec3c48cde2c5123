-- Make a job findable by its tag.
INSERT INTO tag (tag, job_id) VALUES (%s, %s)
