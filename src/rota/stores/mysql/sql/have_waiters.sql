-- Say whether there is any wait for a job from one to another, even if it is over. One look into the primary key of
-- dependency.
SELECT 1 FROM dependency FORCE INDEX (PRIMARY) WHERE parent BETWEEN %(first)s AND %(last)s LIMIT 1
