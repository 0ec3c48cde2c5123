-- Give a step. By primary key.
SELECT job_id, `key`, began_under, began_at, ended_at, outcome
FROM step WHERE job_id = %(id)s AND key_digest = unhex(sha2(%(key)s, 256))
