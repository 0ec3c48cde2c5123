-- name: notify
-- Count up the notifications of a writer. Primary key; no other connection writes this row.
INSERT INTO rota_notification (origin, number, at) VALUES (%(origin)s, 1, %(now)s)
ON DUPLICATE KEY UPDATE number = number + 1, at = VALUES(at);

-- name: notifications_of_others
-- Read the notifications of all other writers as one text, which changes with every notification and every deleted row.
SELECT CONCAT_WS(':', COUNT(*), SUM(number), SUM(at)) FROM rota_notification WHERE origin NOT LIKE %(ours)s;

-- name: wake_listeners
-- Wake the listeners on a range of slots with KILL QUERY, and read how many there were. The server itself says which
-- connection holds a slot's lock; that connection is a listener, which runs nothing but its wait, and connection ids
-- are not reused while the server runs. So no other statement can be killed. One statement, so that a proxy cannot send
-- parts of it to different servers. A listener may have gone meanwhile (1094) or belong to another user (1095).
BEGIN NOT ATOMIC
    DECLARE slot INT DEFAULT %(first)s;
    DECLARE free, woken INT DEFAULT 0;
    DECLARE listener BIGINT;
    WHILE slot <= %(last)s AND free < %(gap)s DO
        SET listener = IS_USED_LOCK(CONCAT(%(prefix)s, slot));
        IF listener IS NULL THEN
            SET free = free + 1;
        ELSE
            SET free = 0;
            IF slot <> %(except)s THEN
                BEGIN
                    DECLARE EXIT HANDLER FOR 1094, 1095 BEGIN END;
                    KILL QUERY listener;
                    SET woken = woken + 1;
                END;
            END IF;
        END IF;
        SET slot = slot + 1;
    END WHILE;
    SELECT woken;
END;

-- name: take_listener_slot
-- Take the free slot with the lowest number, if it is lower than ours; read the number of the slot that we have then.
BEGIN NOT ATOMIC
    DECLARE slot INT DEFAULT 0;
    WHILE slot < %(slot)s AND NOT COALESCE(GET_LOCK(CONCAT(%(prefix)s, slot), 0), 0) DO
        SET slot = slot + 1;
    END WHILE;
    IF slot < %(slot)s THEN
        DO RELEASE_LOCK(CONCAT(%(prefix)s, %(slot)s));
    END IF;
    SELECT slot;
END;

-- name: hold_wait_lock
-- Take the named lock that the listener of this process waits for, until the connection ends.
SELECT GET_LOCK(%(wait_lock)s, 0);

-- name: wait_for_notification
-- Wait until woken; read the notifications of other writers, and how the wait ended: NULL if woken, 0 if the time was
-- over, 1 if the lock was free (the connection that held it is gone), 2 if there was something new at once.
-- Notifications before the first look are seen by it; later writers find this statement running and can kill the wait.
-- DO turns the kill into NULL, so the rest still runs. Some writers wake no listener, so the table is read again every few
-- moments, here in the server, without a round trip. No transaction is open meanwhile.
BEGIN NOT ATOMIC
    DECLARE checks INT DEFAULT %(checks)s;
    DECLARE seen TEXT DEFAULT ({notifications_of_others});
    SET @end_of_wait = 2;
    WHILE seen = %(known)s AND checks > 0 DO
        DO @end_of_wait := GET_LOCK(%(wait_lock)s, %(seconds)s);
        SET checks = IF(@end_of_wait = 0, checks - 1, 0);
        SET seen = ({notifications_of_others});
    END WHILE;
    SELECT seen, @end_of_wait;
END;
