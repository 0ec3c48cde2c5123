-- Wake those who listen on some seats, and give how many that were.
--
-- The server itself says which connection has a seat, and it is an ear, which does nothing else until its end; no other
-- is given its number while the server runs. So no statement but an ear's can be ended. It is all in one statement, so
-- that no proxy sends one half of it elsewhere. An ear may have gone since (1094), or belong to another user (1095).
BEGIN NOT ATOMIC
    DECLARE seat INT DEFAULT %(first)s;
    DECLARE free, woken INT DEFAULT 0;
    DECLARE ear BIGINT;
    WHILE seat <= %(last)s AND free < %(gap)s DO
        SET ear = IS_USED_LOCK(CONCAT(%(room)s, seat));
        IF ear IS NULL THEN
            SET free = free + 1;
        ELSE
            SET free = 0;
            IF seat <> %(spared)s THEN
                BEGIN
                    DECLARE EXIT HANDLER FOR 1094, 1095 BEGIN END;
                    KILL QUERY ear;
                    SET woken = woken + 1;
                END;
            END IF;
        END IF;
        SET seat = seat + 1;
    END WHILE;
    SELECT woken;
END
