-- Count the jobs that wait in a queue, up to a limit: beyond it, full is full. By primary key of ready.
SELECT (SELECT count(*) FROM (SELECT 1 FROM ready WHERE queue = %(queue)s LIMIT %(limit)s) AS pending)
    + (SELECT count(*) FROM held WHERE state = 'queued' AND queue = %(queue)s)
