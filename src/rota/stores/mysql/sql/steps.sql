-- name: lock_lease_with_fence
-- Lock the lease of a job if it is still held under a fence. Primary key.
SELECT 1 FROM rota_lease WHERE id = %(job_id)s AND fence = %(fence)s FOR UPDATE;

-- name: is_running
-- Read 1 if a job runs. Primary key.
SELECT 1 FROM rota_lease WHERE id = %(job_id)s;

-- name: step
-- Read a step. Primary key.
SELECT job_id, `key`, began_under, began_at, ended_at, outcome, kind, until, subject
FROM rota_step WHERE job_id = %(job_id)s AND key_digest = unhex(sha2(%(key)s, 256));

-- name: steps
-- Read the steps of a job in the order in which they began. Primary key.
SELECT job_id, `key`, began_under, began_at, ended_at, outcome, kind, until, subject
FROM rota_step WHERE job_id = %(job_id)s ORDER BY number;

-- name: intend_step
-- Record the intent to perform a step, unless the job has too many. Steps are numbered within a job, because clocks may
-- stand still or go back.
INSERT INTO rota_step (job_id, key_digest, `key`, number, began_under, began_at)
SELECT %(job_id)s, unhex(sha2(%(key)s, 256)), %(key)s, 1 + coalesce(max(number), 0), %(fence)s, %(now)s
FROM rota_step AS earlier WHERE job_id = %(job_id)s HAVING count(*) < %(most)s;

-- name: conclude_step
-- Record the outcome of a step; the first outcome stays. Primary key.
UPDATE rota_step SET ended_at = %(now)s, outcome = %(outcome)s
WHERE job_id = %(job_id)s AND key_digest = unhex(sha2(%(key)s, 256)) AND ended_at IS NULL;

-- name: resolve_step
-- Record the outcome of an effect in doubt, as an operator decides. Primary key.
UPDATE rota_step SET ended_at = %(now)s, outcome = %(outcome)s
WHERE job_id = %(job_id)s AND key_digest = unhex(sha2(%(key)s, 256)) AND ended_at IS NULL AND kind = 'effect';

-- name: withdraw_step
-- Delete the intent to perform an effect. Primary key.
DELETE FROM rota_step
WHERE job_id = %(job_id)s AND key_digest = unhex(sha2(%(key)s, 256)) AND ended_at IS NULL AND kind = 'effect';
