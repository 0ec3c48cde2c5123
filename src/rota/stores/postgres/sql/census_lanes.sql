-- Count unfinished jobs by lane and state. Reads the hot table once, which holds nothing else.
SELECT queue, type, state, count(*) FROM job GROUP BY queue, type, state
