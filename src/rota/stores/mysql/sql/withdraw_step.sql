-- Forget the intent to perform a step. By primary key.
DELETE FROM step WHERE job_id = %(id)s AND key_digest = unhex(sha2(%(key)s, 256)) AND ended_at IS NULL
