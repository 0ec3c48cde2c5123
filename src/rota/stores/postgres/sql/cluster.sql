-- Members and leadership.

-- name: upsert_member
-- Record the heartbeat of one process. By primary key.
INSERT INTO {schema}rota_member AS member (
    boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at, facts
) VALUES (
    :boot::text, :role::text, :name::text, :host::text, :pid::bigint, :version::text, :address::text, :queues::text, :types::text, :slots::bigint,
    :busy::bigint, :is_draining::boolean, coalesce(:started_at::bigint, :now::bigint), :now::bigint, :facts::text
)
ON CONFLICT (boot) DO UPDATE
SET role = excluded.role, name = excluded.name, host = excluded.host, pid = excluded.pid, version = excluded.version,
    address = excluded.address, queues = excluded.queues, types = excluded.types, slots = excluded.slots,
    busy = excluded.busy, is_draining = excluded.is_draining,
    started_at = coalesce(:started_at::bigint, member.started_at), seen_at = excluded.seen_at, facts = excluded.facts

-- name: members
-- The recorded processes.
SELECT role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at, facts,
    orders
FROM {schema}rota_member
WHERE (:role::text IS NULL OR role = :role::text) AND seen_at >= :since::bigint
ORDER BY name, started_at, boot

-- name: delete_members
-- Delete processes that have left. By primary key.
DELETE FROM {schema}rota_member WHERE boot = ANY(:keys::text[])

-- name: renew_or_take_leadership
-- Extend leadership, or take it once it has lapsed. The term grows with each change. By primary key.
UPDATE {schema}rota_leader
SET term = term + (holder <> :holder::text)::integer, holder = :holder::text, until = :until::bigint
WHERE name = :name::text AND (holder = :holder::text OR until <= :now::bigint)

-- name: insert_leadership
-- Take a leadership that no process has held before. By primary key.
INSERT INTO {schema}rota_leader (name, holder, term, until) VALUES (:name::text, :holder::text, 1, :until::bigint)
ON CONFLICT DO NOTHING

-- name: leader
-- The current leader. By primary key.
SELECT name, holder, term, until FROM {schema}rota_leader WHERE name = :name::text

-- name: resign_leadership
-- Give leadership up; the term is kept, so that it goes on growing. By primary key.
UPDATE {schema}rota_leader SET until = 0 WHERE name = :name::text AND holder = :holder::text

-- name: heartbeat
-- Record heartbeats as upsert_member does; take or keep leadership as renew_or_take_leadership does, if a candidate is given;
-- and return the time, the leader and the shared configuration. By primary keys. The leader returned is that of the
-- statement's snapshot, unless this statement took leadership; never the candidate itself as of the snapshot, since
-- another process has taken over if it could not keep leadership. Returns also the ranks of the workers among the
-- members: how many other live workers take the same jobs, and how many of those come before each; for that all
-- members are read, of which there are few. And the orders for the members, where there are any.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, {clock}) AS now),
reported AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset($2::text::json) AS reported (
        boot text, role text, name text, host text, pid bigint, version text, address text, queues text, types text,
        slots bigint, busy bigint, is_draining boolean, started_at bigint, facts text
    )
),
alive AS (
    INSERT INTO {schema}rota_member AS member (
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at,
        facts
    )
    SELECT
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining,
        coalesce(started_at, clock.now), clock.now, facts
    FROM clock, reported
    ON CONFLICT (boot) DO UPDATE
    SET role = excluded.role, name = excluded.name, host = excluded.host, pid = excluded.pid,
        version = excluded.version, address = excluded.address, queues = excluded.queues, types = excluded.types,
        slots = excluded.slots, busy = excluded.busy, is_draining = excluded.is_draining,
        started_at = coalesce((SELECT reported.started_at FROM reported WHERE reported.boot = member.boot), member.started_at),
        seen_at = excluded.seen_at, facts = excluded.facts
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
    clock.now, known.name, known.holder, known.term, known.until,
    (SELECT json_agg(json_build_array(key, value, version)) FROM {schema}rota_configuration),
    (
        SELECT json_object_agg(reported.boot, json_build_array(peers.before, peers.others + 1))
        FROM reported, LATERAL (
            SELECT
                count(*) FILTER (WHERE member.boot < reported.boot COLLATE "C") AS before, count(*) AS others
            FROM {schema}rota_member AS member
            WHERE member.role = 'worker' AND NOT member.is_draining AND member.seen_at > clock.now - $6::bigint
                AND member.boot <> reported.boot COLLATE "C" AND member.queues = reported.queues
                AND member.types IS NOT DISTINCT FROM reported.types
        ) AS peers
        WHERE reported.role = 'worker'
    ),
    (
        SELECT json_object_agg(member.boot, member.orders)
        FROM reported JOIN {schema}rota_member AS member ON member.boot = reported.boot COLLATE "C"
        WHERE member.orders IS NOT NULL
    )
FROM clock
LEFT JOIN known ON true

-- name: configuration
-- The shared configuration. Few rows.
SELECT key, value, version FROM {schema}rota_configuration

-- name: save_configuration
-- Set or remove (NULL) a key of the shared configuration. By primary key.
INSERT INTO {schema}rota_configuration AS known (key, value, version) VALUES (:key::text, :value::text, 1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = known.version + 1

-- name: orders_for_members
-- The orders for processes that have some. By primary key.
SELECT boot, orders FROM {schema}rota_member WHERE boot = ANY(:keys::text[]) AND orders IS NOT NULL

-- name: set_orders
-- Set the orders for a process, if they are as they were read. By primary key.
UPDATE {schema}rota_member SET orders = :orders::text WHERE boot = :boot::text AND coalesce(orders, '') = :was::text
