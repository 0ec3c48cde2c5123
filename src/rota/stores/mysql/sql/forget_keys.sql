-- Forget keys. By primary key.
DELETE idempotency FROM idempotency FORCE INDEX (PRIMARY)
WHERE (scope, `key`) IN %(keys)s AND expires_at <= %(before)s
