-- Waits are over. By primary key.
UPDATE dependency SET met = true
FROM unnest($1::bigint[], $2::bigint[]) AS wait (parent, child)
WHERE dependency.parent = wait.parent AND dependency.child = wait.child
