-- Give the names of the archive's days, the oldest first.
SELECT part.relname
FROM pg_inherits JOIN pg_class AS part ON part.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = 'job_done'::regclass AND part.relname ~ '^job_done_\d{8}$'
ORDER BY part.relname
