-- Record that processes are alive, as beat.sql; take or keep the lead if somebody would and nobody else holds it, as
-- lead.sql; and give the time, who leads, and how a queue is set. By primary keys. What is given of the lead is as it was
-- when the statement began, unless it has taken it; never our own lead of then, which somebody has taken meanwhile if we
-- could not keep it. And the ranks of the workers among them: how many others are alive and take the same jobs, and how
-- many of those come before each; for that all members are read, of which there are not many.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
told AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset($2::text::json) AS told (
        boot text, role text, name text, host text, pid bigint, version text, address text, queues text, types text,
        slots bigint, busy bigint, is_draining boolean, started_at bigint
    )
),
alive AS (
    INSERT INTO member (
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
    )
    SELECT
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining,
        coalesce(started_at, clock.now), clock.now
    FROM clock, told
    ON CONFLICT (boot) DO UPDATE
    SET role = excluded.role, name = excluded.name, host = excluded.host, pid = excluded.pid,
        version = excluded.version, address = excluded.address, queues = excluded.queues, types = excluded.types,
        slots = excluded.slots, busy = excluded.busy, is_draining = excluded.is_draining,
        started_at = coalesce((SELECT told.started_at FROM told WHERE told.boot = member.boot), member.started_at),
        seen_at = excluded.seen_at
),
taken AS (
    INSERT INTO leader (name, holder, term, until)
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
    SELECT name, holder, term, until FROM leader
    WHERE name = $3::text AND holder IS DISTINCT FROM $4::text AND NOT EXISTS (SELECT 1 FROM taken)
)
SELECT
    clock.now, known.name, known.holder, known.term, known.until, queue.name, queue.paused_at,
    queue.pause_reason, queue.resume_at, queue.max_depth, queue.max_running, queue.rate_limit, queue.version,
    (
        SELECT json_object_agg(told.boot, json_build_array(peers.before, peers.others + 1))
        FROM told, LATERAL (
            SELECT
                count(*) FILTER (WHERE member.boot < told.boot COLLATE "C") AS before, count(*) AS others
            FROM member
            WHERE member.role = 'worker' AND NOT member.is_draining AND member.seen_at > clock.now - $7::bigint
                AND member.boot <> told.boot COLLATE "C" AND member.queues = told.queues
                AND member.types IS NOT DISTINCT FROM told.types
        ) AS peers
        WHERE told.role = 'worker'
    )
FROM clock
LEFT JOIN known ON true
LEFT JOIN queue ON queue.name = $6::text
