-- Let a key that has been kept for its time stand for another job. By primary key.
UPDATE idempotency SET request = %s, job_id = %s, expires_at = %s WHERE scope = %s AND `key` = %s
