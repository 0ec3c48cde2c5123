-- Go on only if there is no wait for a job from one to another: see have_waiters. As a loop, since what IF asks locks what
-- it reads, and we would wait for a caller who says in an open transaction that it waits.
FOR known_wait IN (
    SELECT 1 FROM dependency FORCE INDEX (PRIMARY) WHERE parent BETWEEN %(first)s AND %(last)s LIMIT 1
) DO
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'somebody may wait for one of these jobs';
END FOR
