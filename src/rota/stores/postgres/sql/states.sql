-- Give the states of jobs by id. By primary key, of the hot table and of one part of the archive for each.
SELECT any_job.id, any_job.state FROM unnest($1::bigint[]) AS wanted (id) JOIN any_job ON any_job.id = wanted.id
