-- Write down the intent to perform a step, once. Steps of a job are numbered: a clock may stand or go back.
INSERT OR IGNORE INTO step (job_id, key, number, began_under, began_at)
SELECT :job_id, :key, 1 + coalesce(max(number), 0), :fence, :now FROM step WHERE job_id = :job_id
