-- Go on only if the statement before this one has stored, or taken away, so many rows. For what was sent before anybody
-- knows what became of that.
IF ROW_COUNT() <> %(count)s THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not as many rows as there should be';
END IF
