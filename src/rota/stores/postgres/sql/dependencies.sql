-- Dependencies between jobs.

-- name: insert_dependencies
-- Let jobs depend on others. If a pair comes twice, the first counts.
INSERT INTO {schema}rota_dependency (parent, child, need, position)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[]) ON CONFLICT DO NOTHING

-- name: lock_parents
-- Mark unfinished jobs as parents of other jobs, and lock them until the transaction ends. By primary key.
UPDATE {schema}rota_job AS job SET is_awaited = true
FROM unnest($1::bigint[]) AS wanted (id)
WHERE job.id = wanted.id
RETURNING job.id

-- name: unmet_dependencies
-- The unmet dependencies on some jobs. By primary key of rota_dependency.
SELECT parent, child, need FROM {schema}rota_dependency WHERE parent = ANY($1::bigint[]) AND NOT met
ORDER BY parent, child

-- name: meet_dependencies
-- Mark dependencies as met, and reduce the blockers of the jobs that waited for them; without blockers a job becomes due
-- now or at its own time, whichever is later. By primary keys.
WITH marked AS (
    UPDATE {schema}rota_dependency AS dependency SET met = true
    FROM unnest($3::bigint[], $4::bigint[]) AS wait (parent, child)
    WHERE dependency.parent = ANY($3::bigint[])
        AND dependency.parent = wait.parent AND dependency.child = wait.child
)
UPDATE {schema}rota_job AS job
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
FROM unnest($5::bigint[], $6::integer[]) AS ended (id, waits)
WHERE job.id = ended.id AND job.state = $7::text

-- name: cancel_waiting
-- Cancel jobs that wait, for another reason than a request. By primary key.
WITH gone AS (
    DELETE FROM {schema}rota_job AS job USING unnest($2::bigint[]) AS wanted (id)
    WHERE job.id = wanted.id AND job.state = ANY($3::text[])
    RETURNING job.*
), kept AS (
    INSERT INTO {schema}rota_job_done (
        id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
        worker, boot, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff, payload,
        result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
        on_failure, parent_id, schedule_id, fire_time
    )
    SELECT
        id, type, queue, priority, 'cancelled', turn, run_at, created_at, $1::bigint, fence, attempts, crashes,
        max_attempts, worker, boot, started_at, $1::bigint, cancel_requested_at, expires_at, timeout, delivery, backoff,
        payload, result, error, $4::text, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers,
        on_success, on_failure, parent_id, schedule_id, fire_time
    FROM gone
    ON CONFLICT DO NOTHING
)
SELECT id FROM gone

-- name: blockers
-- The jobs that a job still waits for. Served by rota_dependency_child.
SELECT parent FROM {schema}rota_dependency WHERE child = :child::bigint AND NOT met ORDER BY parent LIMIT :limit::bigint

-- name: dependencies_of_children
-- The dependencies of some jobs, each job's in the order in which it named them, without its calls. Served by
-- rota_dependency_child.
SELECT parent, child, need, met FROM {schema}rota_dependency WHERE child = ANY(:keys::bigint[]) AND position >= 0
ORDER BY child, position, parent

-- name: dependencies_on_parents
-- The dependencies on some jobs. By primary key.
SELECT parent, child, need, met FROM {schema}rota_dependency WHERE parent = ANY(:keys::bigint[]) ORDER BY parent, child
