-- Give the types of unfinished jobs by id. By primary key.
SELECT job.id, job.type FROM unnest($1::bigint[]) AS wanted (id) JOIN job ON job.id = wanted.id
