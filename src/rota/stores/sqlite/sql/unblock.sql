-- One wait less; with the last one, the job becomes due now or at its own time, whichever is later.
UPDATE job
SET blockers = blockers - 1,
    state = CASE WHEN blockers > 1 THEN 'blocked' WHEN run_at > :now THEN 'scheduled' ELSE 'pending' END,
    turn = CASE WHEN blockers > 1 THEN turn ELSE max(run_at, :now) - priority * :aging END,
    run_at = CASE WHEN blockers > 1 THEN run_at ELSE max(run_at, :now) END,
    updated_at = :now
WHERE id = :id AND state = 'blocked'
