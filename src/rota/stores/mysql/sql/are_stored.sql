-- Go on only if the statement before this one has stored so many rows. What was sent behind that, not knowing what
-- would become of it, begins with this.
BEGIN NOT ATOMIC
    IF ROW_COUNT() <> %(count)s THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not all rows were stored';
    END IF;
END
