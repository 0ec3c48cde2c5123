-- Record that processes are alive, as beat.sql; take or keep the lead if somebody would and nobody else holds it, as
-- lead.sql and stand.sql; and give the time, who leads, and how a queue is set. By primary keys. For MariaDB: all in one
-- statement, and in one transaction, since every process does it every few seconds. A lead that nobody ever had is taken
-- unless somebody takes it at this moment.
BEGIN NOT ATOMIC
    DECLARE moment BIGINT DEFAULT coalesce(%(now)s, ({clock}));
    START TRANSACTION;
    INSERT INTO `member` (
        boot, role, name, host, pid, version, address, queues, types, slots, busy, is_draining, started_at, seen_at
    )
    SELECT
        told.boot, told.role, told.name, told.host, told.pid, told.version, told.address, told.queues, told.types,
        told.slots, told.busy, told.is_draining, coalesce(told.started_at, moment), moment
    FROM JSON_TABLE(%(members)s, '$[*]' COLUMNS (
        boot TEXT PATH '$.boot', role TEXT PATH '$.role', name TEXT PATH '$.name', host TEXT PATH '$.host',
        pid BIGINT PATH '$.pid', version TEXT PATH '$.version', address TEXT PATH '$.address',
        queues MEDIUMTEXT PATH '$.queues', types MEDIUMTEXT PATH '$.types', slots BIGINT PATH '$.slots',
        busy BIGINT PATH '$.busy', is_draining BOOLEAN PATH '$.is_draining', started_at BIGINT PATH '$.started_at'
    )) AS told
    ON DUPLICATE KEY UPDATE
        role = VALUES(role), name = VALUES(name), host = VALUES(host), pid = VALUES(pid), version = VALUES(version),
        address = VALUES(address), queues = VALUES(queues), types = VALUES(types), slots = VALUES(slots),
        busy = VALUES(busy), is_draining = VALUES(is_draining),
        started_at = coalesce(told.started_at, `member`.started_at), seen_at = VALUES(seen_at);
    IF %(holder)s IS NOT NULL THEN
        UPDATE leader
        SET term = term + (holder <> %(holder)s), holder = %(holder)s, until = moment + %(lasting)s
        WHERE name = %(lead)s AND (holder = %(holder)s OR until <= moment);
        IF ROW_COUNT() = 0 THEN
            INSERT INTO leader (name, holder, term, until) VALUES (%(lead)s, %(holder)s, 1, moment + %(lasting)s)
            ON DUPLICATE KEY UPDATE name = VALUES(name);
        END IF;
    END IF;
    COMMIT;
    SELECT
        moment, leader.name, leader.holder, leader.term, leader.until, queue.name, queue.paused_at,
        queue.pause_reason, queue.resume_at, queue.max_depth, queue.max_running, queue.rate_limit, queue.version
    FROM (SELECT 1) AS one
    LEFT JOIN leader ON leader.name = %(lead)s
    LEFT JOIN queue ON queue.name = %(queue)s;
END
