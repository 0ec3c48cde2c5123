-- Reads that change and lock nothing.

-- name: now
-- The server's time.
SELECT {clock}

-- name: jobs_by_id
-- Jobs by id. By primary key, of rota_job and of one partition of rota_job_done for each.
SELECT {job_columns}
FROM unnest($1::bigint[]) AS wanted (wanted_id) JOIN {schema}rota_any_job AS any_job ON any_job.id = wanted.wanted_id

-- name: job_states
-- The states of jobs. By primary key, of rota_job and of one partition of rota_job_done for each.
SELECT any_job.id, any_job.state FROM unnest($1::bigint[]) AS wanted (id)
JOIN {schema}rota_any_job AS any_job ON any_job.id = wanted.id

-- name: list_jobs
-- The beginning of a list of jobs; listing.py adds the conditions. By primary key.
SELECT {job_columns} FROM {schema}rota_any_job AS any_job

-- name: attempts
-- The attempts of a job that have a row. By primary key.
SELECT job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail
FROM {schema}rota_attempt WHERE job_id = $1::bigint ORDER BY fence

-- name: census_lanes
-- Count unfinished jobs by lane and state, with the time at which the next job of each lane became due. Reads rota_job
-- once, then the first entry of each lane in rota_job_turn.
SELECT lane.queue, lane.type, lane.state, lane.size, CASE lane.state
    WHEN 'queued' THEN lane.oldest
    WHEN 'pending' THEN (
        SELECT job.turn + job.priority * $1::bigint
        FROM {schema}rota_job AS job
        WHERE job.state = 'pending' AND job.queue = lane.queue AND job.type = lane.type
        ORDER BY job.turn, job.id
        LIMIT 1
    )
END
FROM (
    SELECT queue, type, state, count(*) AS size, min(turn + priority * $1::bigint)
    FILTER (WHERE state = 'queued') AS oldest
    FROM {schema}rota_job AS job
    GROUP BY queue, type, state
) AS lane

-- name: census_finished
-- Count finished jobs by state. Served by rota_job_done_finished alone.
SELECT state, count(*) FROM {schema}rota_job_done GROUP BY state

-- name: census_pruned
-- How many jobs were pruned, by final state.
SELECT state, count FROM {schema}rota_pruned

-- name: dead_groups
-- Group dead jobs by cause. Served by rota_job_done_dead.
SELECT type, fingerprint, count(*) AS deaths, min(finished_at), max(finished_at), max(id)
FROM {schema}rota_job_done
WHERE state = 'dead'
GROUP BY fingerprint, type
ORDER BY deaths DESC, max(id) DESC
LIMIT $1::bigint
