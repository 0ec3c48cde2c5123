-- Counting what waits for its time read every such job, row by row: five seconds for a million, in which nobody else could
-- read. This index has all that is counted, in the order in which it is.
CREATE INDEX job_later ON job (state, queue, type) WHERE state IN ('scheduled', 'retrying');
