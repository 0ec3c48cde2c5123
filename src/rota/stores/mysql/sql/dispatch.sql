-- name: set_queued
-- Make locked jobs queued: an external broker delivers them. Primary key.
UPDATE rota_job FORCE INDEX (PRIMARY) SET state = 'queued', updated_at = %(now)s WHERE id IN %(ids)s;

-- name: queued_jobs
-- Read queued jobs in the order of ids. Primary keys of rota_held (which has blocked jobs too) and rota_job.
SELECT held.id, held.queue, held.type, job.priority
FROM rota_held AS held FORCE INDEX (PRIMARY) STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = held.id
WHERE held.id > %(after)s AND held.state = 'queued' AND job.updated_at <= %(before)s
ORDER BY held.id
LIMIT %(limit)s;
