-- Take the free seat with the lowest number, if it is lower than the one we have; give the one we have then.
BEGIN NOT ATOMIC
    DECLARE seat INT DEFAULT 0;
    WHILE seat < %(seat)s AND NOT COALESCE(GET_LOCK(CONCAT(%(room)s, seat), 0), 0) DO
        SET seat = seat + 1;
    END WHILE;
    IF seat < %(seat)s THEN
        DO RELEASE_LOCK(CONCAT(%(room)s, %(seat)s));
    END IF;
    SELECT seat;
END
