-- Find what idempotency keys stand for. By primary key.
SELECT idempotency.scope, idempotency.key, idempotency.request, idempotency.job_id
FROM unnest($1::text[], $2::text[]) AS wanted (scope, key)
JOIN idempotency ON idempotency.scope = wanted.scope AND idempotency.key = wanted.key
