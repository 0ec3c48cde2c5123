-- Write down the intent to perform a step, once.
INSERT OR IGNORE INTO step (job_id, key, began_under, began_at) VALUES (?, ?, ?, ?)
