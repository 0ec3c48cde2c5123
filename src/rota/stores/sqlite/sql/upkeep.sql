-- name: promote_due_jobs
-- Make due jobs pending, earliest first. Index: rota_job_time (must be named, or SQLite reads and sorts all of
-- rota_job_later).
UPDATE rota_job SET state = 'pending', updated_at = :now
WHERE id IN (
    SELECT id FROM rota_job INDEXED BY rota_job_time
    WHERE state IN ('scheduled', 'retrying') AND run_at <= :now ORDER BY run_at LIMIT :limit
)
RETURNING queue

-- name: next_upkeep_times
-- Read the next time of each kind of upkeep: promote, reap, expire, fire, end waits. Reads the first entry of
-- rota_job_time (must be named, or SQLite reads all of rota_job_later), rota_job_lease, rota_job_expiry,
-- rota_schedule_due and rota_waiter_due.
SELECT
    (SELECT min(run_at) FROM rota_job INDEXED BY rota_job_time WHERE state IN ('scheduled', 'retrying')),
    (SELECT min(lease_until) FROM rota_job WHERE state = 'running'),
    (
        SELECT expires_at FROM rota_job
        WHERE expires_at IS NOT NULL AND finished_at IS NULL AND state <> 'running'
        ORDER BY expires_at LIMIT 1
    ),
    (SELECT min(next_fire_at) FROM rota_schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL),
    (SELECT min(due_at) FROM rota_waiter WHERE due_at IS NOT NULL)

-- name: lapsed_leases
-- Select running jobs whose lease has lapsed. Index: rota_job_lease.
SELECT {job_columns} FROM rota_job WHERE state = 'running' AND lease_until <= ? ORDER BY lease_until LIMIT ?

-- name: expired_jobs
-- Select jobs that were not started in time. Index: rota_job_expiry.
SELECT {job_columns}
FROM rota_job
WHERE expires_at IS NOT NULL AND finished_at IS NULL AND expires_at <= ? AND state <> 'running'
ORDER BY expires_at
LIMIT ?

-- name: prunable_jobs
-- Select finished jobs past their retention that no unfinished job and no valid key refers to. Index:
-- rota_job_finished.
SELECT id
FROM rota_job
WHERE finished_at IS NOT NULL AND state = :state AND finished_at <= :before
    AND NOT EXISTS (
        SELECT 1 FROM rota_dependency JOIN rota_job AS child ON child.id = rota_dependency.child
        WHERE rota_dependency.parent = rota_job.id AND child.finished_at IS NULL
    )
    AND (idempotency_key IS NULL AND instr(coalesce(meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM rota_idempotency WHERE rota_idempotency.job_id = rota_job.id AND expires_at > :now
    ))
ORDER BY finished_at
LIMIT :limit

-- name: oldest_prunable
-- Select the end of the oldest of some jobs past their retention that no unfinished job and no valid key refers to.
-- Index: rota_job_finished.
SELECT min(oldest.finished_at)
FROM (
    SELECT id, finished_at, idempotency_key, meta
    FROM rota_job
    WHERE finished_at IS NOT NULL AND state = :state AND finished_at <= :before
    ORDER BY finished_at
    LIMIT :limit
) AS oldest
WHERE NOT EXISTS (
        SELECT 1 FROM rota_dependency JOIN rota_job AS child ON child.id = rota_dependency.child
        WHERE rota_dependency.parent = oldest.id AND child.finished_at IS NULL
    )
    AND (idempotency_key IS NULL AND instr(coalesce(meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM rota_idempotency WHERE rota_idempotency.job_id = oldest.id AND expires_at > :now
    ))

-- name: discardable_jobs
-- Select, of some jobs, the dead and cancelled ones that no unfinished job and no valid key refers to. By primary key.
SELECT id, state
FROM rota_job
WHERE id IN (SELECT value FROM json_each(:ids)) AND (state = 'dead' OR state = 'cancelled')
    AND NOT EXISTS (
        SELECT 1 FROM rota_dependency JOIN rota_job AS child ON child.id = rota_dependency.child
        WHERE rota_dependency.parent = rota_job.id AND child.finished_at IS NULL
    )
    AND (idempotency_key IS NULL AND instr(coalesce(meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM rota_idempotency WHERE rota_idempotency.job_id = rota_job.id AND expires_at > :now
    ))
ORDER BY id

-- name: delete_attempts_of_jobs
-- Delete the attempts of pruned jobs. By primary key.
DELETE FROM rota_attempt WHERE job_id IN (SELECT value FROM json_each(?))

-- name: delete_steps_of_jobs
-- Delete the steps of pruned jobs. By primary key.
DELETE FROM rota_step WHERE job_id IN (SELECT value FROM json_each(?))

-- name: delete_tags_of_jobs
-- Delete the tags of pruned jobs. Index: rota_tag_job.
DELETE FROM rota_tag WHERE job_id IN (SELECT value FROM json_each(?))

-- name: delete_keys_of_jobs
-- Delete the idempotency keys of pruned jobs. Index: rota_idempotency_job.
DELETE FROM rota_idempotency WHERE job_id IN (SELECT value FROM json_each(?))

-- name: delete_dependencies_of_jobs
-- Delete the dependencies of and on pruned jobs. By primary key and rota_dependency_child.
DELETE FROM rota_dependency
WHERE parent IN (SELECT value FROM json_each(:ids)) OR child IN (SELECT value FROM json_each(:ids))

-- name: delete_finished_jobs
-- Delete finished jobs. The end is checked again: an unfinished job is never deleted. By primary key.
DELETE FROM rota_job WHERE id IN (SELECT value FROM json_each(?)) AND finished_at IS NOT NULL

-- name: add_to_pruned_count
-- Count pruned jobs by state, so that totals stay complete.
INSERT INTO rota_pruned (state, count) VALUES (?, ?) ON CONFLICT (state) DO UPDATE SET count = count + excluded.count

-- name: delete_old_claims
-- Delete records of claims that are too old to be repeated. Index: rota_claim_at.
DELETE FROM rota_claim WHERE claim_id IN (SELECT claim_id FROM rota_claim WHERE at <= :before ORDER BY at LIMIT :limit)

-- name: delete_old_keys
-- Delete keys past their time whose job is gone. Index: rota_idempotency_expiry.
DELETE FROM rota_idempotency WHERE (scope, key) IN (
    SELECT scope, key FROM rota_idempotency
    WHERE expires_at <= :before AND NOT EXISTS (SELECT 1 FROM rota_job WHERE rota_job.id = rota_idempotency.job_id)
    ORDER BY expires_at LIMIT :limit
)

-- name: delete_old_occurrences
-- Delete old occurrences, but none whose fire time is still to come. Index: rota_occurrence_at.
DELETE FROM rota_occurrence WHERE (schedule_id, fire_time) IN (
    SELECT schedule_id, fire_time FROM rota_occurrence
    WHERE at <= :before AND fire_time <= :before ORDER BY at LIMIT :limit
)

-- name: delete_old_ledger_entries
-- Delete the oldest audit entries, never the last one, to which the next digest refers. By primary key.
DELETE FROM rota_ledger WHERE number IN (
    SELECT number FROM rota_ledger
    WHERE at <= :before AND number < (SELECT max(number) FROM rota_ledger)
    ORDER BY number LIMIT :limit
)

-- name: delete_old_members
-- Delete processes that were not seen for long.
DELETE FROM rota_member WHERE seen_at <= :before
