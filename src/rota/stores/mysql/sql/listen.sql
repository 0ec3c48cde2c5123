-- Wait until somebody wakes us; give how the bells of other writers stand, and how the wait for our bed ended.
--
-- The wait ends with NULL if we were woken, 0 if nobody did, 1 if the bed was no longer kept from us; it is 2 if there was
-- something new, so that we did not wait. What was rung before the first look is seen by it; who rings later finds this
-- statement under way and can end the wait. `DO` makes no error of that, so what comes after it is still done. Some ring
-- and wake nobody: so we look again every few moments, here in the server, which costs nobody a round trip, and the wait
-- has ended with 0 if that shows something new. No transaction is open and no table in use meanwhile.
BEGIN NOT ATOMIC
    DECLARE looks INT DEFAULT %(looks)s;
    DECLARE seen TEXT DEFAULT (
        SELECT CONCAT_WS(':', COUNT(*), SUM(number), SUM(at)) FROM bell WHERE origin NOT LIKE %(ours)s
    );
    SET @ending = 2;
    WHILE seen = %(known)s AND looks > 0 DO
        DO @ending := GET_LOCK(%(bed)s, %(seconds)s);
        SET looks = IF(@ending = 0, looks - 1, 0);
        SET seen = (
            SELECT CONCAT_WS(':', COUNT(*), SUM(number), SUM(at)) FROM bell WHERE origin NOT LIKE %(ours)s
        );
    END WHILE;
    SELECT seen, @ending;
END
