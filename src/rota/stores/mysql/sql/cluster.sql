-- name: upsert_member
-- Record that a process is alive. Primary key.
INSERT INTO rota_member (
    boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
) VALUES (
    %(boot)s, %(role)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(address)s, %(queues)s, %(types)s, %(slots)s,
    %(busy)s, %(is_draining)s, coalesce(%(started_at)s, %(now)s), %(now)s
)
ON DUPLICATE KEY UPDATE
    role = VALUES(role), name = VALUES(name), host = VALUES(host), pid = VALUES(pid), version = VALUES(version),
    address = VALUES(address), queues = VALUES(queues), types = VALUES(types), slots = VALUES(slots),
    busy = VALUES(busy), is_draining = VALUES(is_draining), started_at = coalesce(%(started_at)s, started_at),
    seen_at = VALUES(seen_at);

-- name: members
-- Read the processes on record. Few rows.
SELECT role, name, boot, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
FROM rota_member
WHERE (%(role)s IS NULL OR role = %(role)s) AND seen_at >= %(since)s
ORDER BY name, started_at, boot;

-- name: delete_members
-- Delete processes that have stopped. Primary key.
DELETE FROM rota_member WHERE boot IN %(boots)s;

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

-- name: release_leadership
-- Give up a leadership; the term is kept, so that it goes on growing. Primary key.
UPDATE rota_leader SET until = 0 WHERE name = %(name)s AND holder = %(holder)s;

-- name: heartbeat
-- Record that processes are alive, renew or take the leadership, and read the time, the leader and the settings of one
-- queue. MariaDB only: one statement and one transaction, since every process runs it every few seconds. Primary keys.
BEGIN NOT ATOMIC
    DECLARE moment BIGINT DEFAULT coalesce(%(now)s, ({server_time}));
    START TRANSACTION;
    INSERT INTO rota_member (
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
    )
    SELECT
        given.boot, given.role, given.name, given.host, given.pid, given.version, given.address, given.queues,
        given.types, given.slots, given.busy, given.is_draining, coalesce(given.started_at, moment), moment
    FROM JSON_TABLE(%(members)s, '$[*]' COLUMNS (
        boot TEXT PATH '$.boot', role TEXT PATH '$.role', name TEXT PATH '$.name', host TEXT PATH '$.host',
        pid BIGINT PATH '$.pid', version TEXT PATH '$.version', address TEXT PATH '$.address',
        queues MEDIUMTEXT PATH '$.queues', types MEDIUMTEXT PATH '$.types', slots BIGINT PATH '$.slots',
        busy BIGINT PATH '$.busy', is_draining BOOLEAN PATH '$.is_draining', started_at BIGINT PATH '$.started_at'
    )) AS given
    ON DUPLICATE KEY UPDATE
        role = VALUES(role), name = VALUES(name), host = VALUES(host), pid = VALUES(pid), version = VALUES(version),
        address = VALUES(address), queues = VALUES(queues), types = VALUES(types), slots = VALUES(slots),
        busy = VALUES(busy), is_draining = VALUES(is_draining),
        started_at = coalesce(given.started_at, rota_member.started_at), seen_at = VALUES(seen_at);
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
        moment, leader.name, leader.holder, leader.term, leader.until, queue.name, queue.paused_at,
        queue.pause_reason, queue.resume_at, queue.max_depth, queue.max_running, queue.rate_limit, queue.version
    FROM (SELECT 1) AS one
    LEFT JOIN rota_leader AS leader ON leader.name = %(lead)s
    LEFT JOIN rota_queue AS queue ON queue.name = %(queue)s;
END;
