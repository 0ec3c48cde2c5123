-- Wait until somebody wakes us; give how the bells of other writers stand, and how the wait for our bed ended.
--
-- The wait ends with NULL if we were woken, 0 if nobody did in time, 1 if the bed was no longer kept from us; it is 2 if
-- there was something new, so that we did not wait. What was rung before the first look is seen by it; who rings later
-- finds this statement under way and can end the wait. `DO` makes no error of that, so what comes after it is still
-- done. No transaction is open and no table in use meanwhile.
BEGIN NOT ATOMIC
    DECLARE seen TEXT DEFAULT (
        SELECT CONCAT_WS(':', COUNT(*), SUM(number), SUM(at)) FROM bell WHERE origin NOT LIKE %(ours)s
    );
    SET @ending = 2;
    IF seen = %(known)s THEN
        DO @ending := GET_LOCK(%(bed)s, %(seconds)s);
        SET seen = (
            SELECT CONCAT_WS(':', COUNT(*), SUM(number), SUM(at)) FROM bell WHERE origin NOT LIKE %(ours)s
        );
    END IF;
    SELECT seen, @ending;
END
