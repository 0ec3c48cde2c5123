-- Give jobs by id. By primary key, of the hot table and of one part of the archive for each.
SELECT {job_columns}
FROM unnest($1::bigint[]) AS wanted (wanted_id) JOIN any_job ON any_job.id = wanted.wanted_id
