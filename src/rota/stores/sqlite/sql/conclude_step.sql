-- Write down that a step's effect happened; the first outcome stays.
UPDATE step SET ended_at = ?, outcome = ? WHERE job_id = ? AND key = ? AND ended_at IS NULL
