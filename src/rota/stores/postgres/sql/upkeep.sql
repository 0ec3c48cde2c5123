-- Upkeep: jobs that become due, lapse, expire, and are deleted after retention.

-- name: promote_jobs
-- Make due jobs pending, the earliest first. Served by rota_job_time, from the scan start (see low_water.py). May send
-- a notification, see notify.py: PostgreSQL sends equal ones of one transaction once, and none if nothing is due.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
due AS MATERIALIZED (
    SELECT job.ctid AS place
    FROM clock, {schema}rota_job AS job
    WHERE job.state IN ('scheduled', 'retrying') AND job.run_at >= $3::bigint AND job.run_at <= clock.now
    ORDER BY job.run_at, job.id
    LIMIT $2::bigint
    FOR UPDATE OF job SKIP LOCKED
)
UPDATE {schema}rota_job AS job SET state = 'pending', updated_at = clock.now
FROM clock, due
WHERE job.ctid = due.place
RETURNING job.queue, CASE WHEN $4::text IS NOT NULL THEN pg_notify($4::text, $5::text)::text END

-- name: lapsed_leases
-- Running jobs whose lease has lapsed. Served by rota_job_lease, from the scan start (see low_water.py).
SELECT {job_columns}
FROM {schema}rota_job
WHERE state = 'running' AND lease_until <= $1::bigint AND lease_until >= $3::bigint
ORDER BY lease_until, id
LIMIT $2::bigint

-- name: expired_jobs
-- Waiting jobs that were not started in time. Served by rota_job_expiry.
SELECT {job_columns}
FROM {schema}rota_job
WHERE expires_at IS NOT NULL AND expires_at <= $1::bigint AND state <> 'running'
ORDER BY expires_at, id
LIMIT $2::bigint

-- name: timetable
-- The time, and when upkeep is needed next: the earliest due job, lease end, expiry, fire time and end of a wait. One
-- read at the left edge of five indexes; of rota_job_time and rota_job_lease from the scan start (see low_water.py).
SELECT
    {clock},
    (SELECT min(run_at) FROM {schema}rota_job WHERE state IN ('scheduled', 'retrying') AND run_at >= $1::bigint),
    (SELECT min(lease_until) FROM {schema}rota_job WHERE state = 'running' AND lease_until >= $2::bigint),
    (SELECT min(expires_at) FROM {schema}rota_job WHERE expires_at IS NOT NULL AND state <> 'running'),
    (SELECT min(next_fire_at) FROM {schema}rota_schedule WHERE paused_at IS NULL AND next_fire_at IS NOT NULL),
    (SELECT min(due_at) FROM {schema}rota_waiter WHERE due_at IS NOT NULL)

-- name: is_anything_prunable
-- The time, and whether anything may be past its retention: finished jobs by state, claims, keys, history. (It may
-- have to be kept all the same.) Locks nothing; one read at the left edge of rota_job_done_finished, rota_claim_at,
-- rota_idempotency_expiry, rota_event_expiry and rota_occurrence_at each. There are few members; of the ledger the
-- oldest entry that may go is read.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now)
SELECT
    now,
    EXISTS (
        SELECT 1
        FROM (VALUES ('completed', $2::bigint), ('cancelled', $3::bigint), ('dead', $4::bigint)) AS kept (state, span),
            LATERAL (
                SELECT finished_at FROM {schema}rota_job_done AS job_done WHERE job_done.state = kept.state
                ORDER BY finished_at LIMIT 1
            ) AS oldest
        WHERE oldest.finished_at <= now - kept.span
    )
    OR EXISTS (SELECT 1 FROM {schema}rota_claim WHERE at <= now - $5::bigint)
    OR EXISTS (SELECT 1 FROM {schema}rota_idempotency WHERE expires_at <= now)
    OR EXISTS (SELECT 1 FROM {schema}rota_event WHERE expires_at <= now)
    OR EXISTS (SELECT 1 FROM {schema}rota_occurrence WHERE at <= now - $6::bigint AND fire_time <= now - $6::bigint)
    OR EXISTS (SELECT 1 FROM {schema}rota_member WHERE seen_at <= now - $6::bigint)
    OR coalesce((
        SELECT at FROM {schema}rota_ledger WHERE number < (SELECT max(number) FROM {schema}rota_ledger)
        ORDER BY number LIMIT 1
    ) <= now - $6::bigint, false)
FROM clock

-- name: prunable_jobs
-- Finished jobs past their retention that nothing refers to, locked. Served by rota_job_done_finished.
SELECT job_done.id
FROM {schema}rota_job_done AS job_done
WHERE job_done.state = $2::text AND job_done.finished_at <= $3::bigint
    AND NOT EXISTS (
        SELECT 1 FROM {schema}rota_dependency AS dependency
        JOIN {schema}rota_job AS child ON child.id = dependency.child
        WHERE dependency.parent = job_done.id
    )
    AND (job_done.idempotency_key IS NULL AND strpos(coalesce(job_done.meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM {schema}rota_idempotency AS idempotency
        WHERE idempotency.job_id = job_done.id AND idempotency.expires_at > $1::bigint
    ))
ORDER BY job_done.finished_at, job_done.id
LIMIT $4::bigint
FOR UPDATE SKIP LOCKED

-- name: oldest_prunable
-- The end of the oldest of some jobs past their retention that nothing refers to. Served by rota_job_done_finished.
SELECT min(oldest.finished_at)
FROM (
    SELECT id, finished_at, idempotency_key, meta
    FROM {schema}rota_job_done AS job_done
    WHERE job_done.state = :state::text AND job_done.finished_at <= :before::bigint
    ORDER BY job_done.finished_at
    LIMIT :limit::bigint
) AS oldest
WHERE NOT EXISTS (
        SELECT 1 FROM {schema}rota_dependency AS dependency
        JOIN {schema}rota_job AS child ON child.id = dependency.child
        WHERE dependency.parent = oldest.id
    )
    AND (oldest.idempotency_key IS NULL AND strpos(coalesce(oldest.meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM {schema}rota_idempotency AS idempotency
        WHERE idempotency.job_id = oldest.id AND idempotency.expires_at > :now::bigint
    ))

-- name: discardable_jobs
-- Those of some jobs that are dead or cancelled and that nothing refers to, locked. By primary key.
SELECT job_done.id, job_done.state
FROM unnest($2::bigint[]) AS wanted (id) JOIN {schema}rota_job_done AS job_done ON job_done.id = wanted.id
WHERE job_done.state || '' = ANY(ARRAY['dead', 'cancelled'])
    AND NOT EXISTS (
        SELECT 1 FROM {schema}rota_dependency AS dependency
        JOIN {schema}rota_job AS child ON child.id = dependency.child
        WHERE dependency.parent = job_done.id
    )
    AND (job_done.idempotency_key IS NULL AND strpos(coalesce(job_done.meta, ''), '"rota.unique"') = 0 OR NOT EXISTS (
        SELECT 1 FROM {schema}rota_idempotency AS idempotency
        WHERE idempotency.job_id = job_done.id AND idempotency.expires_at > $1::bigint
    ))
ORDER BY job_done.id
FOR UPDATE OF job_done

-- name: delete_jobs
-- Delete finished jobs. By primary key of one partition.
DELETE FROM {schema}rota_job_done AS job_done USING unnest($1::bigint[]) AS gone (id) WHERE job_done.id = gone.id

-- name: delete_attempts
-- Delete the attempts of pruned jobs. By primary key.
DELETE FROM {schema}rota_attempt WHERE job_id = ANY($1::bigint[])

-- name: delete_steps
-- Delete the steps of pruned jobs. By primary key.
DELETE FROM {schema}rota_step WHERE job_id = ANY($1::bigint[])

-- name: delete_tags
-- Delete the tags of pruned jobs. Served by rota_tag_job.
DELETE FROM {schema}rota_tag WHERE job_id = ANY($1::bigint[])

-- name: delete_keys
-- Delete the idempotency keys of pruned jobs. Served by rota_idempotency_job.
DELETE FROM {schema}rota_idempotency WHERE job_id = ANY($1::bigint[])

-- name: delete_dependencies
-- Delete the dependencies of and on pruned jobs. Served by the primary key and rota_dependency_child.
DELETE FROM {schema}rota_dependency WHERE parent = ANY($1::bigint[]) OR child = ANY($1::bigint[])

-- name: add_pruned
-- Add to the count of pruned jobs.
INSERT INTO {schema}rota_pruned AS pruned (state, count) VALUES ($1::text, $2::bigint)
ON CONFLICT (state) DO UPDATE SET count = pruned.count + excluded.count

-- name: delete_old_claims
-- Delete claims that no worker will repeat. Served by rota_claim_at.
DELETE FROM {schema}rota_claim WHERE claim_id = ANY(ARRAY(
    SELECT claim_id FROM {schema}rota_claim WHERE at <= $1::bigint ORDER BY at LIMIT $2::bigint
))

-- name: delete_old_open_claims
-- Delete open claims whose workers have died. Served by rota_open_claim_since.
DELETE FROM {schema}rota_open_claim WHERE since <= $1::bigint

-- name: delete_old_keys
-- Delete keys that are past their time and whose job is gone. Served by rota_idempotency_expiry.
DELETE FROM {schema}rota_idempotency AS idempotency WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}rota_idempotency AS idempotency
    WHERE expires_at <= $1::bigint AND NOT EXISTS (SELECT 1 FROM {schema}rota_any_job AS any_job
    WHERE any_job.id = idempotency.job_id OFFSET 0)
    ORDER BY expires_at
    LIMIT $2::bigint
    FOR UPDATE OF idempotency SKIP LOCKED
))

-- name: delete_old_occurrences
-- Delete old occurrences, but no future fire times. Served by rota_occurrence_at.
DELETE FROM {schema}rota_occurrence WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {schema}rota_occurrence
    WHERE at <= $1::bigint AND fire_time <= $1::bigint
    ORDER BY at
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
))

-- name: delete_old_entries
-- Delete the oldest entries of the ledger, never the last, on which the chain of digests continues. By primary key.
DELETE FROM {schema}rota_ledger WHERE number = ANY(ARRAY(
    SELECT number FROM {schema}rota_ledger
    WHERE at <= $1::bigint AND number < (SELECT max(number) FROM {schema}rota_ledger)
    ORDER BY number
    LIMIT $2::bigint
))

-- name: delete_old_members
-- Delete members that stopped sending heartbeats.
DELETE FROM {schema}rota_member WHERE seen_at <= $1::bigint
