-- name: jobs_by_id
-- Read jobs. Primary key.
SELECT {job_columns} FROM rota_job AS job LEFT JOIN rota_lease AS lease ON lease.id = job.id WHERE job.id IN %(ids)s;

-- name: list_jobs
-- The beginning of every list of jobs; stores/listing.py adds the conditions. Primary key.
SELECT {job_columns} FROM rota_job AS job LEFT JOIN rota_lease AS lease ON lease.id = job.id;

-- name: attempts
-- Read the stored attempts of a job. Primary key.
SELECT job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail
FROM rota_attempt WHERE job_id = %(id)s ORDER BY fence;

-- name: census_lanes
-- Count unfinished jobs by lane and state in the table of each state, with the time at which the first job of a lane
-- became due: primary key of rota_ready, then of rota_job. Queued jobs are few: the broker's window bounds them.
SELECT lane.queue, lane.type, 'pending', lane.size, (
    SELECT next.turn + job.priority * %(aging)s
    FROM rota_ready AS next FORCE INDEX (PRIMARY)
        STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = next.id
    WHERE next.queue = lane.queue AND next.type = lane.type
    ORDER BY next.queue, next.type, next.turn, next.id
    LIMIT 1
)
FROM (SELECT queue, type, count(*) AS size FROM rota_ready GROUP BY queue, type) AS lane
UNION ALL
SELECT queue, type, state, count(*), NULL FROM rota_scheduled GROUP BY queue, type, state
UNION ALL
SELECT job.queue, job.type, 'running', count(*), NULL
FROM rota_lease AS lease STRAIGHT_JOIN rota_job AS job ON job.id = lease.id GROUP BY job.queue, job.type
UNION ALL
SELECT queue, type, state, count(*), NULL FROM rota_held WHERE state = 'blocked' GROUP BY queue, type, state
UNION ALL
SELECT held.queue, held.type, held.state, count(*), min(job.turn + job.priority * %(aging)s)
FROM rota_held AS held STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = held.id
WHERE held.state = 'queued' GROUP BY held.queue, held.type, held.state;

-- name: census_finished
-- Count finished jobs by state. Reads rota_finished alone.
SELECT state, count(*) FROM rota_finished GROUP BY state;

-- name: census_pruned
-- Read how many jobs retention has deleted, by final state.
SELECT state, count FROM rota_pruned;

-- name: dead_groups
-- Group dead jobs by cause. The dead are one range of the primary key of rota_finished.
SELECT job.type, finished.fingerprint, count(*) AS deaths, min(finished.finished_at), max(finished.finished_at),
    max(finished.id)
FROM rota_finished AS finished FORCE INDEX (PRIMARY) STRAIGHT_JOIN rota_job AS job ON job.id = finished.id
WHERE finished.state = 'dead'
GROUP BY finished.fingerprint, job.type
ORDER BY deaths DESC, max(finished.id) DESC
LIMIT %(limit)s;

-- name: server_time
-- Read the server time in microseconds since 1970 in UTC, whatever the time zone of the session.
SELECT timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6));

-- name: identify_store
-- Read the applied migrations, the name of the database, whether sql_mode is strict, the time, and the connection id:
-- by this a caller's connection is checked to lead to the store.
SELECT number, name, database(), instr(@@sql_mode, 'STRICT') > 0, ({server_time}), connection_id() FROM rota_migration;
