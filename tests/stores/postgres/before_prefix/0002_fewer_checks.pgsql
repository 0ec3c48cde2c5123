-- PostgreSQL reads the text of every check anew for each statement that writes: five of them took a quarter of the time
-- that storing a single job takes. One is left, of what would do harm at once; the others are asked by `rota db check`.
ALTER TABLE job
    DROP CONSTRAINT job_is_unfinished,
    DROP CONSTRAINT job_is_blocked_by_something,
    DROP CONSTRAINT job_has_attempts_left,
    DROP CONSTRAINT job_was_claimed_for_each_attempt;
