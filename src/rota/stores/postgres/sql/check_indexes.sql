-- Give the indexes of our tables that cannot be used.
SELECT index.relname
FROM pg_index JOIN pg_class AS index ON index.oid = pg_index.indexrelid
WHERE pg_index.indrelid = ANY(ARRAY['job', 'job_done', 'dependency', 'idempotency', 'attempt', 'step']::regclass[])
    AND NOT pg_index.indisvalid
ORDER BY index.relname
