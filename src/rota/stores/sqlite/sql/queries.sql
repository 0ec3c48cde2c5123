-- name: jobs_by_id
-- Select jobs by id. By primary key.
SELECT {job_columns} FROM rota_job WHERE id IN (SELECT value FROM json_each(:keys))

-- name: job_states
-- Select the states of jobs by id. By primary key.
SELECT id, state FROM rota_job WHERE id IN (SELECT value FROM json_each(?))

-- name: job_ends
-- Select the states of jobs by id, and why they ended. By primary key.
SELECT id, state, reason FROM rota_job WHERE id IN (SELECT value FROM json_each(?))

-- name: job_state
-- Select the state of one job. By primary key.
SELECT state FROM rota_job WHERE id = ?

-- name: job_type
-- Select the type of one job. By primary key.
SELECT type FROM rota_job WHERE id = ?

-- name: attempts
-- Select the recorded attempts of a job. By primary key.
SELECT job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail
FROM rota_attempt WHERE job_id = :job_id ORDER BY fence

-- name: census_lanes
-- Count unfinished jobs by queue, type and state, and read when the first of each became due. Table rows are read only
-- of running and queued jobs and of the first pending job of each lane; the rest is counted in rota_job_turn,
-- rota_job_later and rota_job_held. The condition of rota_job_held is repeated, or SQLite does not use it.
SELECT lane.queue, lane.type, 'pending', lane.size, (
    SELECT turn + priority * :aging
    FROM rota_job INDEXED BY rota_job_turn
    WHERE state = 'pending' AND concurrency_key IS NULL AND queue = lane.queue AND type = lane.type
    ORDER BY turn
    LIMIT 1
)
FROM (
    SELECT queue, type, count(*) AS size
    FROM rota_job INDEXED BY rota_job_turn
    WHERE state = 'pending' AND concurrency_key IS NULL
    GROUP BY queue, type
) AS lane
UNION ALL
SELECT queue, type, 'pending', count(*), min(turn + priority * :aging)
FROM rota_job INDEXED BY rota_job_key
WHERE state = 'pending' AND concurrency_key IS NOT NULL
GROUP BY queue, type
UNION ALL
SELECT queue, type, state, count(*), NULL
FROM rota_job INDEXED BY rota_job_later
WHERE state IN ('scheduled', 'retrying')
GROUP BY queue, type, state
UNION ALL
SELECT queue, type, 'running', count(*), NULL
FROM rota_job INDEXED BY rota_job_lease
WHERE state = 'running'
GROUP BY queue, type
UNION ALL
SELECT queue, type, 'blocked', count(*), NULL
FROM rota_job INDEXED BY rota_job_held
WHERE state IN ('blocked', 'queued') AND state = 'blocked'
GROUP BY queue, type
UNION ALL
SELECT queue, type, 'queued', count(*), min(turn + priority * :aging)
FROM rota_job INDEXED BY rota_job_held
WHERE state IN ('blocked', 'queued') AND state = 'queued'
GROUP BY queue, type

-- name: census_failed
-- Count dead and cancelled jobs. Index only: rota_job_finished.
SELECT state, count(*) FROM rota_job INDEXED BY rota_job_finished
WHERE finished_at IS NOT NULL AND state IN ('dead', 'cancelled')
GROUP BY state

-- name: completed_ends
-- When the first and the last completed job ended. Two entries of rota_job_finished.
SELECT
    (SELECT min(finished_at) FROM rota_job WHERE finished_at IS NOT NULL AND state = 'completed'),
    (SELECT max(finished_at) FROM rota_job WHERE finished_at IS NOT NULL AND state = 'completed')

-- name: count_completed
-- Count the completed jobs that ended in a span of time. Index only: a range of rota_job_finished.
SELECT count(*) FROM rota_job INDEXED BY rota_job_finished
WHERE state = 'completed' AND finished_at IS NOT NULL AND finished_at > :after AND finished_at <= :until

-- name: census_pruned
-- Read how many jobs were pruned, by final state.
SELECT state, count FROM rota_pruned

-- name: dead_groups
-- Group dead jobs by cause. Index only: rota_job_cause.
SELECT type, fingerprint, count(*) AS deaths, min(finished_at), max(finished_at), max(id)
FROM rota_job INDEXED BY rota_job_cause
WHERE state = 'dead'
GROUP BY fingerprint, type
ORDER BY deaths DESC, max(id) DESC
LIMIT :limit

-- name: dead_trend
-- Count dead jobs by cause and by time of death, in steps from a moment on. Index only: rota_job_cause.
SELECT type, fingerprint, (finished_at - :since) / :step AS place, count(*)
FROM rota_job INDEXED BY rota_job_cause
WHERE state = 'dead' AND finished_at >= :since
GROUP BY fingerprint, type, place

-- name: set_dead_note
-- Set the note on a cause. By primary key.
INSERT INTO rota_dead_note (type, fingerprint, text, set_by, set_at) VALUES (:type, :fingerprint, :text, :set_by, :set_at)
ON CONFLICT (type, fingerprint) DO UPDATE SET text = excluded.text, set_by = excluded.set_by, set_at = excluded.set_at

-- name: delete_dead_note
-- Remove the note on a cause. By primary key.
DELETE FROM rota_dead_note WHERE type = :type AND fingerprint = :fingerprint

-- name: dead_notes
-- Select all notes: at most some hundreds.
SELECT type, fingerprint, text, set_by, set_at FROM rota_dead_note ORDER BY type, fingerprint

-- name: jobs_ahead
-- Count the pending jobs that a claim takes before one, of some types of its queue. Index: rota_job_turn, one range for
-- each type.
SELECT count(*), coalesce(sum(ahead.is_higher), 0)
FROM (
    SELECT other.priority > job.priority AS is_higher
    FROM rota_job AS job
    CROSS JOIN json_each(:keys) AS wanted
    CROSS JOIN rota_job AS other INDEXED BY rota_job_turn
        ON other.state = 'pending' AND other.concurrency_key IS NULL AND other.queue = job.queue
        AND other.type = wanted.value AND other.turn <= job.turn
    WHERE job.id = :id AND job.state = 'pending' AND job.concurrency_key IS NULL AND (other.turn < job.turn OR other.id < job.id)
    LIMIT :limit
) AS ahead
