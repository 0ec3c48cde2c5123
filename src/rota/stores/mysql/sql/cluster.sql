-- name: upsert_member
-- Record that a process is alive. Primary key.
INSERT INTO rota_member (
    boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at, facts
) VALUES (
    %(boot)s, %(role)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(address)s, %(queues)s, %(types)s, %(slots)s,
    %(busy)s, %(is_draining)s, coalesce(%(started_at)s, %(now)s), %(now)s, %(facts)s
)
ON DUPLICATE KEY UPDATE
    role = VALUES(role), name = VALUES(name), host = VALUES(host), pid = VALUES(pid), version = VALUES(version),
    address = VALUES(address), queues = VALUES(queues), types = VALUES(types), slots = VALUES(slots),
    busy = VALUES(busy), is_draining = VALUES(is_draining), started_at = coalesce(%(started_at)s, started_at),
    seen_at = VALUES(seen_at), facts = VALUES(facts);

-- name: members
-- Read the processes on record. Few rows.
SELECT role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at, facts,
    orders
FROM rota_member
WHERE (%(role)s IS NULL OR role = %(role)s) AND seen_at >= %(since)s
ORDER BY name, started_at, boot;

-- name: delete_members
-- Delete processes that have stopped. Primary key.
DELETE FROM rota_member WHERE boot IN %(keys)s;

-- name: renew_or_take_leadership
-- Renew the leadership, or take it once it has lapsed. Primary key. The term is set first, because it compares with the
-- previous holder.
UPDATE rota_leader
SET term = term + (holder <> %(holder)s), holder = %(holder)s, until = %(until)s
WHERE name = %(name)s AND (holder = %(holder)s OR until <= %(now)s);

-- name: insert_leadership
-- Take a leadership that no process has held before. Fails on a duplicate. Primary key.
INSERT INTO rota_leader (name, holder, term, until) VALUES (%(name)s, %(holder)s, 1, %(until)s);

-- name: leader
-- Read the holder of a leadership. Primary key.
SELECT name, holder, term, until FROM rota_leader WHERE name = %(name)s;

-- name: resign_leadership
-- Give up a leadership; the term is kept, so that it goes on growing. Primary key.
UPDATE rota_leader SET until = 0 WHERE name = %(name)s AND holder = %(holder)s;

-- name: heartbeat
-- Record that processes are alive, renew or take the leadership, and read the time, the leader and the shared
-- configuration. MariaDB only: one statement and one transaction, since every process runs it every few seconds. Primary keys.
BEGIN NOT ATOMIC
    DECLARE moment BIGINT DEFAULT coalesce(%(now)s, ({server_time}));
    START TRANSACTION;
    INSERT INTO rota_member (
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at,
        facts
    )
    SELECT
        given.boot, given.role, given.name, given.host, given.pid, given.version, given.address, given.queues,
        given.types, given.slots, given.busy, given.is_draining, coalesce(given.started_at, moment), moment,
        given.facts
    FROM JSON_TABLE(%(members)s, '$[*]' COLUMNS (
        boot TEXT PATH '$.boot', role TEXT PATH '$.role', name TEXT PATH '$.name', host TEXT PATH '$.host',
        pid BIGINT PATH '$.pid', version TEXT PATH '$.version', address TEXT PATH '$.address',
        queues MEDIUMTEXT PATH '$.queues', types MEDIUMTEXT PATH '$.types', slots BIGINT PATH '$.slots',
        busy BIGINT PATH '$.busy', is_draining BOOLEAN PATH '$.is_draining', started_at BIGINT PATH '$.started_at',
        facts MEDIUMTEXT PATH '$.facts'
    )) AS given
    ON DUPLICATE KEY UPDATE
        role = VALUES(role), name = VALUES(name), host = VALUES(host), pid = VALUES(pid), version = VALUES(version),
        address = VALUES(address), queues = VALUES(queues), types = VALUES(types), slots = VALUES(slots),
        busy = VALUES(busy), is_draining = VALUES(is_draining),
        started_at = coalesce(given.started_at, rota_member.started_at), seen_at = VALUES(seen_at),
        facts = VALUES(facts);
    IF %(holder)s IS NOT NULL THEN
        UPDATE rota_leader
        SET term = term + (holder <> %(holder)s), holder = %(holder)s, until = moment + %(lasting)s
        WHERE name = %(lead)s AND (holder = %(holder)s OR until <= moment);
        IF ROW_COUNT() = 0 THEN
            INSERT INTO rota_leader (name, holder, term, until) VALUES (%(lead)s, %(holder)s, 1, moment + %(lasting)s)
            ON DUPLICATE KEY UPDATE name = VALUES(name);
        END IF;
    END IF;
    COMMIT;
    SELECT
        moment, leader.name, leader.holder, leader.term, leader.until,
        (SELECT JSON_ARRAYAGG(JSON_ARRAY(`key`, value, version)) FROM rota_configuration),
        (
            SELECT JSON_OBJECTAGG(member.boot, member.orders)
            FROM JSON_TABLE(%(members)s, '$[*]' COLUMNS (boot TEXT PATH '$.boot')) AS given
            JOIN rota_member AS member ON member.boot = given.boot
            WHERE member.orders IS NOT NULL
        )
    FROM (SELECT 1) AS one
    LEFT JOIN rota_leader AS leader ON leader.name = %(lead)s;
END;

-- name: configuration
-- Read the shared configuration. Few rows.
SELECT `key`, value, version FROM rota_configuration;

-- name: save_configuration
-- Set or remove (NULL) a key of the shared configuration. Primary key.
INSERT INTO rota_configuration (`key`, value, version) VALUES (%(key)s, %(value)s, 1)
ON DUPLICATE KEY UPDATE value = VALUES(value), version = version + 1;

-- name: orders_for_members
-- Read the orders for processes that have some. Primary key.
SELECT boot, orders FROM rota_member WHERE boot IN %(keys)s AND orders IS NOT NULL;

-- name: set_orders
-- Set the orders for a process, if they are as they were read. Primary key.
UPDATE rota_member SET orders = %(orders)s WHERE boot = %(boot)s AND coalesce(orders, '') = %(was)s;
