-- Refuse an id whose job came and ended while the statement that stores it was under way.
--
-- Its snapshot shows neither the job (it came too late) nor its end, and the unique index no longer holds the id. No job
-- is submitted, run and settled within 0.4 ms, so only a statement that takes longer looks again, with a new snapshot,
-- which each query of a volatile function has. Nearly all statements that store one job are faster.
CREATE FUNCTION refuse_ended_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- OFFSET 0 keeps it one look by primary key for each job, whatever the caller's session lets the planner do.
    IF EXISTS (
        SELECT 1 FROM stored WHERE EXISTS (SELECT 1 FROM job_done WHERE job_done.id = stored.id OFFSET 0)
    ) THEN
        RAISE unique_violation USING MESSAGE = 'a job of this id has ended meanwhile';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER job_ended_meanwhile AFTER INSERT ON job REFERENCING NEW TABLE AS stored FOR EACH STATEMENT
WHEN (clock_timestamp() NOT BETWEEN statement_timestamp() AND statement_timestamp() + interval '400 microseconds')
EXECUTE FUNCTION refuse_ended_jobs();
