-- name: jobs_by_id
-- Select jobs by id. By primary key.
SELECT {job_columns} FROM rota_job WHERE id IN (SELECT value FROM json_each(?))

-- name: job_states
-- Select the states of jobs by id. By primary key.
SELECT id, state FROM rota_job WHERE id IN (SELECT value FROM json_each(?))

-- name: job_state
-- Select the state of one job. By primary key.
SELECT state FROM rota_job WHERE id = ?

-- name: job_type
-- Select the type of one job. By primary key.
SELECT type FROM rota_job WHERE id = ?

-- name: attempts_of_job
-- Select the recorded attempts of a job. By primary key.
SELECT job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail
FROM rota_attempt WHERE job_id = ? ORDER BY fence

-- name: count_unfinished_by_lane
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

-- name: count_finished
-- Count finished jobs by state. Index only: rota_job_finished.
SELECT state, count(*) FROM rota_job WHERE finished_at IS NOT NULL GROUP BY state

-- name: count_pruned
-- Read how many jobs were pruned, by final state.
SELECT state, count FROM rota_pruned

-- name: dead_jobs_by_cause
-- Group dead jobs by cause. Index: rota_job_dead.
SELECT type, fingerprint, count(*) AS deaths, min(finished_at), max(finished_at), max(id)
FROM rota_job
WHERE state = 'dead'
GROUP BY fingerprint, type
ORDER BY deaths DESC, max(id) DESC
LIMIT ?
