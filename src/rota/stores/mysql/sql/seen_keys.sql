-- Give those of some idempotency keys that are there, without keeping anybody from them. By primary key.
SELECT scope, `key` FROM idempotency WHERE (scope, `key`) IN %(keys)s
