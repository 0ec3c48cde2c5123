-- Make a job findable by its tag.
INSERT OR IGNORE INTO tag (tag, job_id) VALUES (?, ?)
