-- Delete finished jobs. By primary key of the part of each.
DELETE FROM job_done USING unnest($1::bigint[]) AS gone (id) WHERE job_done.id = gone.id
