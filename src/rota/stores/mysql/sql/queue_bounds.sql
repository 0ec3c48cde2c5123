-- Give the queues in which only so many jobs may wait.
SELECT name, max_depth FROM queue WHERE max_depth IS NOT NULL
