-- Reads that change and lock nothing.

-- name: now
-- The server's time.
SELECT {clock}

-- name: jobs_by_id
-- Jobs by id. By primary key, of rota_job and of one partition of rota_job_done for each.
SELECT {job_columns}
FROM unnest(:keys::bigint[]) AS wanted (wanted_id) JOIN {schema}rota_any_job AS any_job ON any_job.id = wanted.wanted_id

-- name: job_states
-- The states of jobs. By primary key, of rota_job and of one partition of rota_job_done for each.
SELECT any_job.id, any_job.state FROM unnest($1::bigint[]) AS wanted (id)
JOIN {schema}rota_any_job AS any_job ON any_job.id = wanted.id

-- name: job_ends
-- The states of jobs, and why they ended. By primary key, as job_states.
SELECT any_job.id, any_job.state, any_job.reason FROM unnest($1::bigint[]) AS wanted (id)
JOIN {schema}rota_any_job AS any_job ON any_job.id = wanted.id

-- name: list_jobs
-- The beginning of a list of jobs; listing.py adds the conditions. By primary key.
SELECT {job_columns} FROM {schema}rota_any_job AS any_job

-- name: list_light_jobs
-- The same for a list without payloads and results. By primary key.
SELECT {light_job_columns} FROM {schema}rota_any_job AS any_job

-- name: count_jobs
-- The same for a count. By primary key.
SELECT count(*) FROM {schema}rota_any_job AS any_job

-- name: attempts
-- The attempts of a job that have a row. By primary key.
SELECT job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail
FROM {schema}rota_attempt WHERE job_id = :job_id::bigint ORDER BY fence

-- name: census_lanes
-- Count unfinished jobs by lane and state, with the time at which the next job of each lane became due. Reads rota_job
-- once, then the first entry of each lane in rota_job_turn.
SELECT lane.queue, lane.type, lane.state, lane.size, CASE lane.state
    WHEN 'queued' THEN lane.oldest
    WHEN 'pending' THEN least(lane.oldest, (
        SELECT job.turn + job.priority * :aging::bigint
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.concurrency_key IS NULL AND job.queue = lane.queue AND job.type = lane.type
        ORDER BY job.turn, job.id
        LIMIT 1
    ))
END
FROM (
    SELECT queue, type, state, count(*) AS size, min(turn + priority * :aging::bigint)
    FILTER (WHERE state = 'queued' OR state = 'pending' AND concurrency_key IS NOT NULL) AS oldest
    FROM {schema}rota_job AS job
    GROUP BY queue, type, state
) AS lane

-- name: census_failed
-- Count dead and cancelled jobs. Served by rota_job_done_finished alone.
SELECT state, count(*) FROM {schema}rota_job_done WHERE state IN ('dead', 'cancelled') GROUP BY state

-- name: completed_ends
-- When the first and the last completed job ended. Reads one entry of rota_job_done_finished in each partition.
SELECT min(finished_at), max(finished_at) FROM {schema}rota_job_done WHERE state = 'completed'

-- name: count_completed
-- Count the completed jobs that ended in a span of time. A range of rota_job_done_finished.
SELECT count(*) FROM {schema}rota_job_done
WHERE state = 'completed' AND finished_at > :after::bigint AND finished_at <= :until::bigint

-- name: census_pruned
-- How many jobs were pruned, by final state.
SELECT state, count FROM {schema}rota_pruned

-- name: dead_groups
-- Group dead jobs by cause. Served by rota_job_done_cause alone.
SELECT type, fingerprint, count(*) AS deaths, min(finished_at), max(finished_at), max(id)
FROM {schema}rota_job_done
WHERE state = 'dead'
GROUP BY fingerprint, type
ORDER BY deaths DESC, max(id) DESC
LIMIT :limit::bigint

-- name: dead_trend
-- Count dead jobs by cause and by time of death, in steps from a moment on. Served by rota_job_done_cause alone.
SELECT type, fingerprint, (finished_at - :since::bigint) / :step::bigint AS place, count(*)
FROM {schema}rota_job_done
WHERE state = 'dead' AND finished_at >= :since::bigint
GROUP BY fingerprint, type, place

-- name: set_dead_note
-- Set the note on a cause. By primary key.
INSERT INTO {schema}rota_dead_note (type, fingerprint, text, set_by, set_at)
VALUES (:type::text, :fingerprint::text, :text::text, :set_by::text, :set_at::bigint)
ON CONFLICT (type, fingerprint) DO UPDATE SET text = excluded.text, set_by = excluded.set_by, set_at = excluded.set_at

-- name: delete_dead_note
-- Remove the note on a cause. By primary key.
DELETE FROM {schema}rota_dead_note WHERE type = :type::text AND fingerprint = :fingerprint::text

-- name: dead_notes
-- Select all notes: at most some hundreds.
SELECT type, fingerprint, text, set_by, set_at FROM {schema}rota_dead_note ORDER BY type, fingerprint

-- name: jobs_ahead
-- Count the pending jobs that a claim takes before one, of some types of its queue. Served by rota_job_turn, one range
-- for each type.
SELECT count(*), count(*) FILTER (WHERE ahead.is_higher)
FROM (
    SELECT other.priority > job.priority AS is_higher
    FROM {schema}rota_job AS job
    CROSS JOIN unnest(:keys::text[]) AS wanted (type)
    CROSS JOIN LATERAL (
        SELECT next.priority FROM {schema}rota_job AS next
        WHERE next.state = 'pending' AND next.concurrency_key IS NULL
            AND next.queue = job.queue AND next.type = wanted.type
            AND (next.turn, next.id) < (job.turn, job.id)
        LIMIT :limit::bigint
    ) AS other
    WHERE job.id = :id::bigint AND job.state = 'pending' AND job.concurrency_key IS NULL
    LIMIT :limit::bigint
) AS ahead
