-- Forget a key. By primary key. It is asked again whether it has been kept for its time.
DELETE FROM idempotency WHERE scope = %s AND `key` = %s AND expires_at <= %s
