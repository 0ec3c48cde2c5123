-- name: insert_event_lock
-- Lock the row of an event until the transaction ends; it is inserted if there is none. Primary key.
INSERT INTO rota_event (name, expires_at) VALUES (%(name)s, %(expires_at)s) ON DUPLICATE KEY UPDATE name = name;

-- name: lock_event
-- Lock and read an event. Primary key.
SELECT name, payload, at, expires_at FROM rota_event WHERE name = %(name)s FOR UPDATE;

-- name: event
-- Read an event that was emitted and has not expired. Primary key.
SELECT name, payload, at, expires_at
FROM rota_event WHERE name = %(name)s AND at IS NOT NULL AND expires_at > %(now)s;

-- name: events
-- Read the payloads of those of some events that were emitted, and when they expire. Primary key.
SELECT name, payload, expires_at FROM rota_event WHERE name IN %(names)s AND at IS NOT NULL;

-- name: emit_event
-- Store what is emitted in the locked row of an event. Primary key.
UPDATE rota_event SET payload = %(payload)s, at = %(now)s, expires_at = %(expires_at)s WHERE name = %(name)s;

-- name: insert_wait
-- Record the wait of a job, unless the job has too many steps.
INSERT INTO rota_step (job_id, key_digest, `key`, number, began_under, began_at, kind, until, subject)
SELECT
    %(id)s, unhex(sha2(%(key)s, 256)), %(key)s, 1 + coalesce(max(number), 0), %(fence)s, %(now)s, %(kind)s, %(until)s,
    %(subject)s
FROM rota_step AS earlier WHERE job_id = %(id)s HAVING count(*) < %(most)s;

-- name: insert_waiter
-- Have a step wait for an event, if it does not yet.
INSERT INTO rota_waiter (job_id, `key`, event, due_at) VALUES (%(id)s, %(key)s, %(event)s, %(due_at)s)
ON DUPLICATE KEY UPDATE event = event;

-- name: end_wait
-- End a wait with its outcome. Primary key.
UPDATE rota_step SET ended_at = %s, outcome = %s
WHERE job_id = %s AND key_digest = unhex(sha2(%s, 256)) AND ended_at IS NULL;

-- name: delete_waiter
-- Delete a waiter whose wait is over. Primary key.
DELETE FROM rota_waiter WHERE job_id = %s AND `key` = %s;

-- name: waiters_of_event
-- Lock and read steps that wait for an event. Served by rota_waiter_event.
SELECT job_id, `key` FROM rota_waiter FORCE INDEX (rota_waiter_event) WHERE event = %(name)s LIMIT %(limit)s FOR UPDATE;

-- name: make_waiters_due
-- Make all waits for an event due. Served by rota_waiter_event.
UPDATE rota_waiter SET due_at = %(now)s WHERE event = %(name)s;

-- name: due_waiters
-- Lock and read waits that are due, the longest due first. Served by rota_waiter_due.
SELECT job_id, `key`, event, due_at FROM rota_waiter FORCE INDEX (rota_waiter_due)
WHERE due_at <= %(now)s
ORDER BY due_at
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;

-- name: is_open_wait
-- Read 1 if a step has not ended. Primary key.
SELECT 1 FROM rota_step WHERE job_id = %(id)s AND key_digest = unhex(sha2(%(key)s, 256)) AND ended_at IS NULL;

-- name: wait_for_child
-- Let a job wait for a child that it called, until that ends in any way.
INSERT INTO rota_dependency (parent, child, need, position) VALUES (%(parent)s, %(child)s, 'end', %(position)s)
ON DUPLICATE KEY UPDATE met = 0;

-- name: note_call
-- Note that a job has called a child; it does not wait for it yet. A child is kept while its caller may read its result.
INSERT INTO rota_dependency (parent, child, need, position, met)
VALUES (%(parent)s, %(child)s, 'end', %(position)s, 1);

-- name: forget_dependencies
-- Have jobs that have started no longer wait for other jobs: children that they called, and jobs before them that had
-- not ended when an operator ran them. Served by rota_dependency_child.
UPDATE rota_dependency FORCE INDEX (rota_dependency_child) SET met = 1
WHERE child IN %(ids)s AND met = 0;

-- name: delete_waiters_of_jobs
-- Delete the waits of jobs. Primary key. JSON table: see delete_attempts.
DELETE waiter
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (id BIGINT PATH '$')) AS pruned_job
    STRAIGHT_JOIN rota_waiter AS waiter FORCE INDEX (PRIMARY) ON waiter.job_id = pruned_job.id;

-- name: prune_events
-- Delete events that have expired, and locks of events that were not emitted; not events that due waits have yet to be
-- given. Served by rota_event_expiry and rota_waiter_event.
DELETE FROM rota_event
WHERE expires_at <= %(before)s AND NOT (
    at IS NOT NULL AND EXISTS (
        SELECT 1 FROM rota_waiter AS waiter WHERE waiter.event = rota_event.name AND waiter.due_at <= %(before)s
    )
)
ORDER BY expires_at LIMIT %(limit)s;
