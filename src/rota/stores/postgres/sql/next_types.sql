-- Find the next type that has pending jobs in each gap between the types we know: one step of a loose scan of job_turn.
SELECT gap.queue, found.type
FROM unnest($1::text[], $2::text[], $3::text[]) AS gap (queue, first, beyond), LATERAL (
    SELECT job.type
    FROM job
    WHERE job.state = 'pending' AND job.queue = gap.queue AND job.type >= gap.first AND job.type < gap.beyond
    ORDER BY job.type
    LIMIT 1
) AS found
