-- Events, and the waits of jobs for them.

-- name: lock_event
-- Lock the row of an event until the transaction ends; it is inserted if there is none. By primary key.
INSERT INTO {schema}rota_event (name, expires_at) VALUES ($1::text, $2::bigint)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING name, payload, at, expires_at

-- name: event
-- An event that was emitted and has not expired. By primary key.
SELECT name, payload, at, expires_at FROM {schema}rota_event
WHERE name = $1::text AND at IS NOT NULL AND expires_at > $2::bigint

-- name: emit_event
-- Store what is emitted in the locked row of an event. By primary key.
UPDATE {schema}rota_event SET payload = $2::text, at = $3::bigint, expires_at = $4::bigint WHERE name = $1::text

-- name: insert_wait
-- Record the wait of a job, unless the job has too many steps.
INSERT INTO {schema}rota_step (job_id, key, number, began_under, began_at, kind, until, subject)
SELECT $1::bigint, $2::text, 1 + coalesce(max(number), 0), $3::bigint, $4::bigint, $5::text, $6::bigint, $7::text
FROM {schema}rota_step
WHERE job_id = $1::bigint
HAVING count(*) < $8::bigint

-- name: insert_waiter
-- Have a step wait for an event.
INSERT INTO {schema}rota_waiter (job_id, key, event, due_at) VALUES ($1::bigint, $2::text, $3::text, $4::bigint)
ON CONFLICT DO NOTHING

-- name: delete_waiters
-- Delete waiters whose wait is over. By primary key.
DELETE FROM {schema}rota_waiter AS waiter USING unnest($1::bigint[], $2::text[]) AS ended (job_id, key)
WHERE waiter.job_id = ended.job_id AND waiter.key = ended.key

-- name: waiters_of_event
-- Steps that wait for an event, locked. Served by rota_waiter_event.
SELECT job_id, key FROM {schema}rota_waiter WHERE event = $1::text LIMIT $2::bigint FOR UPDATE

-- name: make_waiters_due
-- Make all waits for an event due. Served by rota_waiter_event.
UPDATE {schema}rota_waiter SET due_at = $1::bigint WHERE event = $2::text

-- name: due_waiters
-- Waits that are due, the longest due first, with the payload of the event if it was emitted and had not expired when
-- the wait became due. Served by rota_waiter_due.
SELECT waiter.job_id, waiter.key, event.payload
FROM {schema}rota_waiter AS waiter
LEFT JOIN {schema}rota_event AS event
ON event.name = waiter.event AND event.at IS NOT NULL AND event.expires_at > waiter.due_at
WHERE waiter.due_at IS NOT NULL AND waiter.due_at <= $1::bigint
ORDER BY waiter.due_at
LIMIT $2::bigint
FOR UPDATE OF waiter SKIP LOCKED

-- name: end_waits
-- End waits with their outcomes. By primary key.
UPDATE {schema}rota_step AS step SET ended_at = $1::bigint, outcome = ended.outcome
FROM unnest($2::bigint[], $3::text[], $4::text[]) AS ended (job_id, key, outcome)
WHERE step.job_id = ended.job_id AND step.key = ended.key AND step.ended_at IS NULL

-- name: lock_jobs
-- Lock unfinished jobs, whatever their state: a job that is being suspended must be waited for. By primary key.
SELECT id FROM {schema}rota_job WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE

-- name: wake_jobs
-- Make locked jobs that were blocked by a wait pending. By primary key.
UPDATE {schema}rota_job AS job
SET blockers = 0, state = 'pending', turn = $1::bigint - job.priority * $2::bigint, run_at = $1::bigint,
    updated_at = $1::bigint
FROM unnest($3::bigint[]) AS woken (id)
WHERE job.id = woken.id AND job.state = 'blocked'
RETURNING job.queue

-- name: open_waits
-- Of some steps, those that have not ended. By primary key.
SELECT step.job_id FROM {schema}rota_step AS step
JOIN unnest($1::bigint[], $2::text[]) AS wanted (job_id, key)
ON step.job_id = wanted.job_id AND step.key = wanted.key
WHERE step.ended_at IS NULL

-- name: wait_for_children
-- Let jobs wait for children that they called, until those end in any way.
INSERT INTO {schema}rota_dependency (parent, child, need, position)
SELECT parent, child, 'end', $3::integer FROM unnest($1::bigint[], $2::bigint[]) AS wait (parent, child)
ON CONFLICT (parent, child) DO UPDATE SET met = false

-- name: note_call
-- Note that a job has called a child; it does not wait for it yet. A child is kept while its caller may read its result.
INSERT INTO {schema}rota_dependency (parent, child, need, position, met)
VALUES ($1::bigint, $2::bigint, 'end', $3::integer, true)

-- name: forget_dependencies
-- Have jobs that have started no longer wait for other jobs: children that they called, and jobs before them that had
-- not ended when an operator ran them. Served by rota_dependency_child.
UPDATE {schema}rota_dependency SET met = true WHERE child = ANY($1::bigint[]) AND NOT met

-- name: delete_waiters_of_jobs
-- Delete the waits of deleted jobs. By primary key.
DELETE FROM {schema}rota_waiter WHERE job_id = ANY($1::bigint[])

-- name: delete_old_events
-- Delete events that have expired, and locks of events that were not emitted; not events that due waits have yet to be
-- given. Served by rota_event_expiry and rota_waiter_event.
DELETE FROM {schema}rota_event WHERE name IN (
    SELECT name FROM {schema}rota_event AS event
    WHERE expires_at <= $1::bigint AND NOT (
        at IS NOT NULL AND EXISTS (
            SELECT 1 FROM {schema}rota_waiter AS waiter
            WHERE waiter.event = event.name AND waiter.due_at <= $1::bigint
        )
    )
    ORDER BY expires_at
    LIMIT $2::bigint
) AND expires_at <= $1::bigint
