-- Give those of some queues in which only so many jobs may wait. By primary key.
SELECT name, max_depth FROM queue WHERE name = ANY($1::text[]) AND max_depth IS NOT NULL
