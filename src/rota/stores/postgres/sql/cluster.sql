-- Members and leadership.

-- name: upsert_member
-- Record the heartbeat of one process. By primary key.
INSERT INTO {schema}rota_member AS member (
    boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
) VALUES (
    $1::text, $2::text, $3::text, $4::text, $5::bigint, $6::text, $7::text, $8::text, $9::text, $10::bigint,
    $11::bigint, $12::boolean, coalesce($13::bigint, $14::bigint), $14::bigint
)
ON CONFLICT (boot) DO UPDATE
SET role = excluded.role, name = excluded.name, host = excluded.host, pid = excluded.pid, version = excluded.version,
    address = excluded.address, queues = excluded.queues, types = excluded.types, slots = excluded.slots,
    busy = excluded.busy, is_draining = excluded.is_draining,
    started_at = coalesce($13::bigint, member.started_at), seen_at = excluded.seen_at

-- name: members
-- The recorded processes.
SELECT role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
FROM {schema}rota_member
WHERE ($1::text IS NULL OR role = $1::text) AND seen_at >= $2::bigint
ORDER BY name, started_at, boot

-- name: delete_members
-- Delete processes that have left. By primary key.
DELETE FROM {schema}rota_member WHERE boot = ANY($1::text[])

-- name: take_leadership
-- Take or keep leadership if no other process holds it. By primary key.
INSERT INTO {schema}rota_leader AS leader (name, holder, term, until) VALUES ($1::text, $2::text, 1, $3::bigint)
ON CONFLICT (name) DO UPDATE
SET term = leader.term + (leader.holder <> excluded.holder)::integer, holder = excluded.holder, until = excluded.until
WHERE leader.holder = excluded.holder OR leader.until <= $4::bigint

-- name: leader
-- The current leader. By primary key.
SELECT name, holder, term, until FROM {schema}rota_leader WHERE name = $1::text

-- name: resign_leadership
-- Give leadership up; the term is kept, so that it goes on growing. By primary key.
UPDATE {schema}rota_leader SET until = 0 WHERE name = $1::text AND holder = $2::text

-- name: heartbeat
-- Record heartbeats as upsert_member does; take or keep leadership as take_leadership does, if a candidate is given;
-- and return the time, the leader and the settings of one queue. By primary keys. The leader returned is that of the
-- statement's snapshot, unless this statement took leadership; never the candidate itself as of the snapshot, since
-- another process has taken over if it could not keep leadership. Returns also the ranks of the workers among the
-- members: how many other live workers take the same jobs, and how many of those come before each; for that all
-- members are read, of which there are few.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
reported AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset($2::text::json) AS reported (
        boot text, role text, name text, host text, pid bigint, version text, address text, queues text, types text,
        slots bigint, busy bigint, is_draining boolean, started_at bigint
    )
),
alive AS (
    INSERT INTO {schema}rota_member AS member (
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
    )
    SELECT
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining,
        coalesce(started_at, clock.now), clock.now
    FROM clock, reported
    ON CONFLICT (boot) DO UPDATE
    SET role = excluded.role, name = excluded.name, host = excluded.host, pid = excluded.pid,
        version = excluded.version, address = excluded.address, queues = excluded.queues, types = excluded.types,
        slots = excluded.slots, busy = excluded.busy, is_draining = excluded.is_draining,
        started_at = coalesce((SELECT reported.started_at FROM reported WHERE reported.boot = member.boot), member.started_at),
        seen_at = excluded.seen_at
),
taken AS (
    INSERT INTO {schema}rota_leader AS leader (name, holder, term, until)
    SELECT $3::text, $4::text, 1, clock.now + $5::bigint FROM clock WHERE $4::text IS NOT NULL
    ON CONFLICT (name) DO UPDATE
    SET term = leader.term + (leader.holder <> excluded.holder)::integer, holder = excluded.holder,
        until = excluded.until
    WHERE leader.holder = excluded.holder OR leader.until <= (SELECT now FROM clock)
    RETURNING name, holder, term, until
),
known AS (
    SELECT name, holder, term, until FROM taken
    UNION ALL
    SELECT name, holder, term, until FROM {schema}rota_leader AS leader
    WHERE name = $3::text AND holder IS DISTINCT FROM $4::text AND NOT EXISTS (SELECT 1 FROM taken)
)
SELECT
    clock.now, known.name, known.holder, known.term, known.until, queue.name, queue.paused_at,
    queue.pause_reason, queue.resume_at, queue.max_depth, queue.max_running, queue.rate_limit, queue.version,
    (
        SELECT json_object_agg(reported.boot, json_build_array(peers.before, peers.others + 1))
        FROM reported, LATERAL (
            SELECT
                count(*) FILTER (WHERE member.boot < reported.boot COLLATE "C") AS before, count(*) AS others
            FROM {schema}rota_member AS member
            WHERE member.role = 'worker' AND NOT member.is_draining AND member.seen_at > clock.now - $7::bigint
                AND member.boot <> reported.boot COLLATE "C" AND member.queues = reported.queues
                AND member.types IS NOT DISTINCT FROM reported.types
        ) AS peers
        WHERE reported.role = 'worker'
    )
FROM clock
LEFT JOIN known ON true
LEFT JOIN {schema}rota_queue AS queue ON queue.name = $6::text
