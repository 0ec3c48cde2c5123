-- Write down that a step's effect happened; the first outcome stays.
UPDATE step SET ended_at = %(now)s, outcome = %(outcome)s
WHERE job_id = %(id)s AND key_digest = unhex(sha2(%(key)s, 256)) AND ended_at IS NULL
