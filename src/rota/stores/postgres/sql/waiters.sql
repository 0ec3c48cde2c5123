-- Give the waits for jobs that have ended. By primary key of dependency.
SELECT parent, child, need FROM dependency WHERE parent = ANY($1::bigint[]) AND NOT met ORDER BY parent, child
