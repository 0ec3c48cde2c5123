-- name: jobs_by_id
-- Read jobs. Primary key.
SELECT {job_columns} FROM rota_job AS job LEFT JOIN rota_lease AS lease ON lease.id = job.id WHERE job.id IN %(keys)s;

-- name: list_jobs
-- The beginning of every list of jobs; stores/listing.py adds the conditions. Primary key.
SELECT {job_columns} FROM rota_job AS job LEFT JOIN rota_lease AS lease ON lease.id = job.id;

-- name: list_light_jobs
-- The same for a list without payloads and results. Primary key.
SELECT {light_job_columns} FROM rota_job AS job LEFT JOIN rota_lease AS lease ON lease.id = job.id;

-- name: count_jobs
-- The same for a count. Primary key.
SELECT count(*) FROM rota_job AS job LEFT JOIN rota_lease AS lease ON lease.id = job.id;

-- name: attempts
-- Read the stored attempts of a job. Primary key.
SELECT job_id, fence, worker, boot, started_at, ended_at, event, error, progress, log_tail
FROM rota_attempt WHERE job_id = %(job_id)s ORDER BY fence;

-- name: census_lanes
-- Count unfinished jobs by lane and state in the table of each state, with the time at which the first job of a lane
-- became due: primary key of rota_ready, then of rota_job; rota_scheduled_lane. Without the order of an index, MariaDB
-- groups a million jobs by names in a table on disk, which takes seconds. Queued jobs are few: the broker's window
-- bounds them.
SELECT lane.queue, lane.type, 'pending', lane.size, (
    SELECT next.turn + job.priority * %(aging)s
    FROM rota_ready AS next FORCE INDEX (PRIMARY)
        STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = next.id
    WHERE next.queue = lane.queue AND next.type = lane.type AND next.concurrency_key = ''
    ORDER BY next.queue, next.type, next.concurrency_key, next.turn, next.id
    LIMIT 1
)
FROM (SELECT queue, type, count(*) AS size FROM rota_ready WHERE concurrency_key = '' GROUP BY queue, type) AS lane
UNION ALL
SELECT ready.queue, ready.type, 'pending', count(*), min(ready.turn + job.priority * %(aging)s)
FROM (SELECT DISTINCT queue, type FROM rota_ready) AS lane
    STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
    ON ready.queue = lane.queue AND ready.type = lane.type AND ready.concurrency_key > ''
    STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = ready.id
GROUP BY ready.queue, ready.type
UNION ALL
SELECT queue, type, state, count(*), NULL FROM rota_scheduled FORCE INDEX (rota_scheduled_lane)
GROUP BY state, queue, type
UNION ALL
SELECT job.queue, job.type, 'running', count(*), NULL
FROM rota_lease AS lease STRAIGHT_JOIN rota_job AS job ON job.id = lease.id GROUP BY job.queue, job.type
UNION ALL
SELECT queue, type, state, count(*), NULL FROM rota_held WHERE state = 'blocked' GROUP BY queue, type, state
UNION ALL
SELECT held.queue, held.type, held.state, count(*), min(job.turn + job.priority * %(aging)s)
FROM rota_held AS held STRAIGHT_JOIN rota_job AS job FORCE INDEX (PRIMARY) ON job.id = held.id
WHERE held.state = 'queued' GROUP BY held.queue, held.type, held.state;

-- name: census_failed
-- Count dead and cancelled jobs. Two ranges of the primary key of rota_finished.
SELECT state, count(*) FROM rota_finished FORCE INDEX (PRIMARY) WHERE state IN ('dead', 'cancelled') GROUP BY state;

-- name: completed_ends
-- When the first and the last completed job ended. The ends of a range of the primary key of rota_finished.
SELECT min(finished_at), max(finished_at) FROM rota_finished WHERE state = 'completed';

-- name: count_completed
-- Count the completed jobs that ended in a span of time. A range of the primary key of rota_finished.
SELECT count(*) FROM rota_finished FORCE INDEX (PRIMARY)
WHERE state = 'completed' AND finished_at > %(after)s AND finished_at <= %(until)s;

-- name: census_pruned
-- Read how many jobs retention has deleted, by final state.
SELECT state, count FROM rota_pruned;

-- name: dead_groups
-- Group dead jobs by cause. The dead are one range of the primary key of rota_finished; no row of a job is read.
SELECT type, fingerprint, count(*) AS deaths, min(finished_at), max(finished_at), max(id)
FROM rota_finished FORCE INDEX (PRIMARY)
WHERE state = 'dead'
GROUP BY fingerprint, type
ORDER BY deaths DESC, max(id) DESC
LIMIT %(limit)s;

-- name: dead_trend
-- Count dead jobs by cause and by time of death, in steps from a moment on. One range of the primary key of
-- rota_finished; no row of a job is read.
SELECT type, fingerprint, (finished_at - %(since)s) DIV %(step)s AS place, count(*)
FROM rota_finished FORCE INDEX (PRIMARY)
WHERE state = 'dead' AND finished_at >= %(since)s
GROUP BY fingerprint, type, place;

-- name: set_dead_note
-- Set the note on a cause. Primary key.
INSERT INTO rota_dead_note (type, fingerprint, text, set_by, set_at)
VALUES (%(type)s, %(fingerprint)s, %(text)s, %(set_by)s, %(set_at)s)
ON DUPLICATE KEY UPDATE text = VALUES(text), set_by = VALUES(set_by), set_at = VALUES(set_at);

-- name: delete_dead_note
-- Remove the note on a cause. Primary key.
DELETE FROM rota_dead_note WHERE type = %(type)s AND fingerprint = %(fingerprint)s;

-- name: dead_notes
-- Read all notes: at most some hundreds.
SELECT type, fingerprint, text, set_by, set_at FROM rota_dead_note ORDER BY type, fingerprint;

-- name: server_time
-- Read the server time in microseconds since 1970 in UTC, whatever the time zone of the session.
SELECT timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6));

-- name: identify_store
-- Read the applied migrations, the name of the database, whether sql_mode is strict, the time, and the connection id:
-- by this a caller's connection is checked to lead to the store.
SELECT number, name, database(), instr(@@sql_mode, 'STRICT') > 0, ({server_time}), connection_id() FROM rota_migration;

-- name: jobs_ahead
-- Count the pending jobs that a claim takes before one, of some types of its queue. Primary key of rota_ready, one range
-- for each type, then of rota_job.
SELECT COUNT(*), coalesce(SUM(ahead.is_higher), 0)
FROM (
    SELECT other.priority > job.priority AS is_higher
    FROM rota_job AS job
        STRAIGHT_JOIN rota_ready AS ready FORCE INDEX (PRIMARY)
        ON ready.queue = job.queue AND ready.type IN %(keys)s AND ready.concurrency_key = '' AND ready.turn <= job.turn
        STRAIGHT_JOIN rota_job AS other ON other.id = ready.id
    WHERE job.id = %(id)s AND job.state = 'pending' AND (ready.turn < job.turn OR ready.id < job.id)
        AND EXISTS (
            SELECT 1 FROM rota_ready AS own
            WHERE own.queue = job.queue AND own.type = job.type AND own.concurrency_key = ''
                AND own.turn = job.turn AND own.id = job.id
        )
    LIMIT %(limit)s
) AS ahead;
