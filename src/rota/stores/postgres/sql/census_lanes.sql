-- Count unfinished jobs by lane and state, and say when the next of each lane became due. Reads the hot table once, which
-- holds nothing else, and then the first entry of each lane in job_turn.
SELECT lane.queue, lane.type, lane.state, lane.size, CASE lane.state
    WHEN 'queued' THEN lane.oldest
    WHEN 'pending' THEN (
        SELECT job.turn + job.priority * $1::bigint
        FROM job
        WHERE job.state = 'pending' AND job.queue = lane.queue AND job.type = lane.type
        ORDER BY job.turn, job.id
        LIMIT 1
    )
END
FROM (
    SELECT queue, type, state, count(*) AS size, min(turn + priority * $1::bigint) FILTER (WHERE state = 'queued') AS oldest
    FROM job
    GROUP BY queue, type, state
) AS lane
