-- Delete the waits of and for pruned jobs.
DELETE FROM dependency WHERE parent = ANY($1::bigint[]) OR child = ANY($1::bigint[])
