-- Some waits less; with the last one, the job becomes due now or at its own time, whichever is later. By primary key.
UPDATE job
SET blockers = job.blockers - ended.waits,
    state = CASE
        WHEN job.blockers > ended.waits THEN 'blocked' WHEN job.run_at > $1::bigint THEN 'scheduled' ELSE 'pending'
    END,
    turn = CASE
        WHEN job.blockers > ended.waits THEN job.turn
        ELSE greatest(job.run_at, $1::bigint) - job.priority * $2::bigint
    END,
    run_at = CASE WHEN job.blockers > ended.waits THEN job.run_at ELSE greatest(job.run_at, $1::bigint) END,
    updated_at = $1::bigint
FROM unnest($3::bigint[], $4::integer[]) AS ended (id, waits)
WHERE job.id = ended.id AND job.state = $5::text
