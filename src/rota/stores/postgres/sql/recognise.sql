-- Give the migrations that this database has seen, whether all tables that a submission needs are in the same schema as
-- they, and the time: by this a guest, whose way to find tables is its own, knows that it is in the right house.
SELECT
    number, name,
    (
        SELECT count(DISTINCT relnamespace) = 1 FROM pg_class
        WHERE oid = ANY(
            '{migration, job, job_done, any_job, idempotency, queue, tag, dependency}'::regclass[]::oid[]
        )
    ),
    (SELECT {clock})
FROM migration
