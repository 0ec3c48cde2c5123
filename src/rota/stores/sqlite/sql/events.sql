-- name: event
-- Select an event that was emitted and has not expired. By primary key.
SELECT name, payload, at, expires_at FROM rota_event WHERE name = :name AND at IS NOT NULL AND expires_at > :now

-- name: emit_event
-- Store an event; one of this name that was not emitted, or has expired, is replaced.
INSERT INTO rota_event (name, payload, at, expires_at) VALUES (:name, :payload, :now, :expires_at)
ON CONFLICT (name) DO UPDATE
SET payload = excluded.payload, at = excluded.at, expires_at = excluded.expires_at
WHERE at IS NULL OR expires_at <= :now

-- name: insert_wait
-- Record the wait of a job, once, unless the job has too many steps.
INSERT OR IGNORE INTO rota_step (job_id, key, number, began_under, began_at, kind, until, subject)
SELECT :job_id, :key, 1 + last, :fence, :now, :kind, :until, :subject
FROM (SELECT coalesce(max(number), 0) AS last, count(*) AS total FROM rota_step WHERE job_id = :job_id)
WHERE total < :most

-- name: insert_waiter
-- Have a step wait for an event.
INSERT OR IGNORE INTO rota_waiter (job_id, key, event, due_at) VALUES (?, ?, ?, ?)

-- name: delete_waiter
-- Delete a waiter whose wait is over. By primary key.
DELETE FROM rota_waiter WHERE job_id = ? AND key = ?

-- name: waiters_of_event
-- Select steps that wait for an event. Index: rota_waiter_event.
SELECT job_id, key FROM rota_waiter WHERE event = ? LIMIT ?

-- name: make_waiters_due
-- Make all waits for an event due. Index: rota_waiter_event.
UPDATE rota_waiter SET due_at = ? WHERE event = ?

-- name: due_waiters
-- Select waits that are due, the longest due first, with the payload of the event if it was emitted and had not expired
-- when the wait became due. Index: rota_waiter_due.
SELECT waiter.job_id, waiter.key, event.payload
FROM rota_waiter AS waiter
LEFT JOIN rota_event AS event
ON event.name = waiter.event AND event.at IS NOT NULL AND event.expires_at > waiter.due_at
WHERE waiter.due_at IS NOT NULL AND waiter.due_at <= :now
ORDER BY waiter.due_at
LIMIT :limit

-- name: wake_job
-- Make a job that was blocked by a wait pending. By primary key.
UPDATE rota_job
SET blockers = 0, state = 'pending', turn = :now - priority * :aging, run_at = :now, updated_at = :now
WHERE id = :id AND state = 'blocked'
RETURNING queue

-- name: note_call
-- Note that a job has called a child; it does not wait for it yet. A child is kept while its caller may read its result.
INSERT INTO rota_dependency (parent, child, need, position, met) VALUES (?, ?, 'end', ?, 1)

-- name: forget_dependencies
-- Have a job that has started no longer wait for other jobs: children that it called, and jobs before it that had not
-- ended when an operator ran it. Index: rota_dependency_child.
UPDATE rota_dependency SET met = 1 WHERE child = ? AND met = 0

-- name: delete_waiters_of_jobs
-- Delete the waits of pruned jobs. By primary key.
DELETE FROM rota_waiter WHERE job_id IN (SELECT value FROM json_each(?))

-- name: delete_old_events
-- Delete events that have expired, and locks of events that were not emitted; not events that due waits have yet to be
-- given. Indexes: rota_event_expiry and rota_waiter_event.
DELETE FROM rota_event WHERE name IN (
    SELECT name FROM rota_event AS event
    WHERE expires_at <= :before AND NOT (
        at IS NOT NULL
        AND EXISTS (SELECT 1 FROM rota_waiter AS waiter WHERE waiter.event = event.name AND waiter.due_at <= :before)
    )
    ORDER BY expires_at
    LIMIT :limit
)
