-- Mark unfinished jobs as awaited, and hold them as they are until we are done. By primary key.
UPDATE job SET is_awaited = true
FROM unnest($1::bigint[]) AS wanted (id)
WHERE job.id = wanted.id
RETURNING job.id
