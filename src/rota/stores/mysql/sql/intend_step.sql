-- Write down the intent to perform a step. Steps of a job are numbered: a clock may stand or go back.
INSERT INTO step (job_id, key_digest, `key`, number, began_under, began_at)
SELECT %(id)s, unhex(sha2(%(key)s, 256)), %(key)s, 1 + coalesce(max(number), 0), %(fence)s, %(now)s
FROM step AS earlier WHERE job_id = %(id)s
