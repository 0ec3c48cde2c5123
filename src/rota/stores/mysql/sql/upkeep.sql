-- name: due_jobs
-- Read scheduled and retrying jobs that are due, earliest first. Primary key of rota_scheduled.
SELECT id FROM rota_scheduled FORCE INDEX (PRIMARY) WHERE run_at <= %(now)s ORDER BY run_at, id LIMIT %(limit)s;

-- name: set_pending
-- Make locked jobs pending. Primary key.
UPDATE rota_job FORCE INDEX (PRIMARY) SET state = 'pending', updated_at = %(now)s WHERE id IN %(ids)s;

-- name: expired_jobs
-- Read waiting jobs that were not started in time. Primary key of rota_expiry.
SELECT {job_columns}
FROM rota_expiry AS expiry FORCE INDEX (PRIMARY) STRAIGHT_JOIN rota_job AS job ON job.id = expiry.id
    LEFT JOIN rota_lease AS lease ON lease.id = expiry.id
WHERE expiry.expires_at <= %(now)s AND lease.id IS NULL
ORDER BY expiry.expires_at, expiry.id
LIMIT %(limit)s;

-- name: timetable
-- Read the server time, and when each kind of upkeep is needed next: the first entry of five keys.
SELECT
    ({server_time}),
    (SELECT run_at FROM rota_scheduled ORDER BY run_at LIMIT 1),
    (SELECT lease_until FROM rota_lease ORDER BY lease_until LIMIT 1),
    (
        SELECT expires_at FROM rota_expiry AS expiry
        WHERE NOT EXISTS (SELECT 1 FROM rota_lease AS lease WHERE lease.id = expiry.id)
        ORDER BY expires_at LIMIT 1
    ),
    (
        SELECT next_fire_at FROM rota_schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL
        ORDER BY next_fire_at LIMIT 1
    ),
    (SELECT MIN(due_at) FROM rota_waiter);

-- name: oldest_of_each_kind
-- Read the oldest of each kind of row that retention deletes: finished jobs by state, named claims, notifications,
-- idempotency keys, events, occurrences, audit entries except the last, members. The first entry of each key; notifications and
-- members are few.
SELECT
    ({server_time}),
    (SELECT finished_at FROM rota_finished WHERE state = 'completed' ORDER BY finished_at LIMIT 1),
    (SELECT finished_at FROM rota_finished WHERE state = 'cancelled' ORDER BY finished_at LIMIT 1),
    (SELECT finished_at FROM rota_finished WHERE state = 'dead' ORDER BY finished_at LIMIT 1),
    (SELECT at FROM rota_claim ORDER BY at LIMIT 1),
    (SELECT MIN(at) FROM rota_notification),
    (SELECT expires_at FROM rota_idempotency ORDER BY expires_at LIMIT 1),
    (SELECT expires_at FROM rota_event ORDER BY expires_at LIMIT 1),
    (SELECT at FROM rota_occurrence ORDER BY at LIMIT 1),
    (SELECT at FROM rota_ledger WHERE number < (SELECT MAX(number) FROM rota_ledger) ORDER BY number LIMIT 1),
    (SELECT MIN(seen_at) FROM rota_member);

-- name: prunable_jobs
-- Read finished jobs past their retention that no unfinished job and no idempotency key needs. Primary key of
-- rota_finished.
SELECT finished.id
FROM rota_finished AS finished FORCE INDEX (PRIMARY) STRAIGHT_JOIN rota_job AS job ON job.id = finished.id
WHERE finished.state = %(state)s AND finished.finished_at <= %(before)s
    AND NOT EXISTS (
        SELECT 1 FROM rota_dependency AS dependency JOIN rota_job AS child ON child.id = dependency.child
        WHERE dependency.parent = job.id AND child.finished_at IS NULL
    )
    AND (job.idempotency_key IS NULL AND instr(coalesce(job.meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM rota_idempotency WHERE job_id = job.id AND expires_at > %(now)s
    ))
ORDER BY finished.finished_at, finished.id
LIMIT %(limit)s;

-- name: oldest_prunable
-- Read the end of the oldest of some jobs past their retention that no unfinished job and no idempotency key needs.
-- Primary key of rota_finished.
SELECT min(oldest.finished_at)
FROM (
    SELECT id, finished_at FROM rota_finished FORCE INDEX (PRIMARY)
    WHERE state = %(state)s AND finished_at <= %(before)s
    ORDER BY finished_at
    LIMIT %(limit)s
) AS oldest STRAIGHT_JOIN rota_job AS job ON job.id = oldest.id
WHERE NOT EXISTS (
        SELECT 1 FROM rota_dependency AS dependency JOIN rota_job AS child ON child.id = dependency.child
        WHERE dependency.parent = job.id AND child.finished_at IS NULL
    )
    AND (job.idempotency_key IS NULL AND instr(coalesce(job.meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM rota_idempotency WHERE job_id = job.id AND expires_at > %(now)s
    ));

-- name: discardable_jobs
-- Of some jobs, read those that are dead or cancelled. Primary key.
SELECT id FROM rota_job WHERE id IN %(ids)s AND (state = 'dead' OR state = 'cancelled');

-- name: deletable_jobs
-- Of some locked finished jobs, read those that no unfinished job and no idempotency key needs. Primary key.
SELECT job.id
FROM rota_job AS job
WHERE job.id IN %(ids)s AND job.finished_at IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM rota_dependency AS dependency JOIN rota_job AS child ON child.id = dependency.child
        WHERE dependency.parent = job.id AND child.finished_at IS NULL
    )
    AND (job.idempotency_key IS NULL AND instr(coalesce(job.meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM rota_idempotency WHERE job_id = job.id AND expires_at > %(now)s
    ))
ORDER BY job.id;

-- name: delete_attempts
-- Delete the attempts of jobs. Primary key. Keys in a JSON table: MariaDB takes no index hint in a plain DELETE, and a
-- scan would wait for rows others hold.
DELETE attempt
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_attempt AS attempt FORCE INDEX (PRIMARY) ON attempt.job_id = pruned_job.id;

-- name: delete_steps
-- Delete the steps of jobs. Primary key. JSON table: see delete_attempts.
DELETE step
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_step AS step FORCE INDEX (PRIMARY) ON step.job_id = pruned_job.id;

-- name: delete_tags
-- Delete the tags of jobs. Served by rota_tag_job. JSON table: see delete_attempts.
DELETE tag
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_tag AS tag FORCE INDEX (rota_tag_job) ON tag.job_id = pruned_job.id;

-- name: delete_fired
-- Delete the entries of jobs made by schedules. Served by rota_fired_job. JSON table: see delete_attempts.
DELETE fired
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_fired AS fired FORCE INDEX (rota_fired_job) ON fired.job_id = pruned_job.id;

-- name: delete_keys
-- Delete the idempotency keys of jobs. Served by rota_idempotency_job. JSON table: see delete_attempts.
DELETE idempotency
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_idempotency AS idempotency FORCE INDEX (rota_idempotency_job)
    ON idempotency.job_id = pruned_job.id;

-- name: delete_dependencies_of_children
-- Delete what jobs waited for. Served by rota_dependency_child. JSON table: see delete_attempts.
DELETE dependency
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_dependency AS dependency FORCE INDEX (rota_dependency_child) ON dependency.child = pruned_job.id;

-- name: delete_dependencies_of_parents
-- Delete the dependencies on jobs. Primary key. JSON table: see delete_attempts.
DELETE dependency
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_dependency AS dependency FORCE INDEX (PRIMARY) ON dependency.parent = pruned_job.id;

-- name: delete_jobs
-- Delete jobs. The condition is repeated here so that an unfinished job is never deleted. Primary key. JSON table: see
-- delete_attempts.
DELETE job
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = pruned_job.id
WHERE job.finished_at IS NOT NULL;

-- name: add_pruned
-- Add to the number of deleted jobs of a state. Primary key.
INSERT INTO rota_pruned (state, count) VALUES (%(state)s, %(count)s)
ON DUPLICATE KEY UPDATE count = count + VALUES(count);

-- name: prune_claims
-- Delete named claims that no client repeats any more. Served by rota_claim_at.
DELETE FROM rota_claim WHERE at <= %(before)s ORDER BY at LIMIT %(limit)s;

-- name: prune_notifications
-- Delete the counters of writers that have made no work for long. Few rows.
DELETE FROM rota_notification WHERE at <= %(before)s;

-- name: prunable_keys
-- Read idempotency keys whose time is over and whose job is gone. Served by rota_idempotency_expiry.
SELECT scope, `key` FROM rota_idempotency AS idempotency FORCE INDEX (rota_idempotency_expiry)
WHERE expires_at <= %(before)s AND NOT EXISTS (SELECT 1 FROM rota_job AS job WHERE job.id = idempotency.job_id)
ORDER BY expires_at LIMIT %(limit)s;

-- name: prune_key
-- Delete an idempotency key if its time is still over. Primary key.
DELETE FROM rota_idempotency WHERE scope = %s AND `key` = %s AND expires_at <= %s;

-- name: prune_occurrences
-- Delete old occurrences, never those still to come. Served by rota_occurrence_at.
DELETE FROM rota_occurrence WHERE at <= %(before)s AND fire_time <= %(before)s ORDER BY at LIMIT %(limit)s;

-- name: prune_ledger
-- Delete the oldest audit entries, never the last: the chain of digests continues from it. Primary key.
DELETE FROM rota_ledger WHERE at <= %(before)s AND number < %(last)s ORDER BY number LIMIT %(limit)s;

-- name: prune_members
-- Delete processes that have not been seen for long. Few rows.
DELETE FROM rota_member WHERE seen_at <= %(before)s;
