-- The key job_schedule was written for every job, to find the few that a schedule has made: a tenth of what the server
-- does for a plain job that comes in bulk. Those few have a narrow table of their own now.
--
-- While older processes run: they go on, and their jobs are kept and run as any other. But they write no rows here, so
-- a list of a schedule's jobs does not show what they made after this migration (the schedule's occurrences do), and
-- their own such lists read all jobs. `rota db check` names what is missing; the INSERT below, run once more after the
-- last of them has gone, puts it right. Rows of jobs that they delete stay, and show nothing.
CREATE TABLE IF NOT EXISTS fired (
    schedule_id BIGINT NOT NULL,
    job_id      BIGINT NOT NULL,
    PRIMARY KEY (schedule_id, job_id),
    KEY fired_job (job_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

INSERT IGNORE INTO fired (schedule_id, job_id) SELECT schedule_id, id FROM job WHERE schedule_id IS NOT NULL;

-- MySQL knows no DROP KEY IF EXISTS. A moment's lock of the table of jobs: nothing is copied.
SET @change = IF(
    EXISTS (
        SELECT 1 FROM information_schema.statistics
        WHERE table_schema = database() AND table_name = 'job' AND index_name = 'job_schedule'
    ),
    'ALTER TABLE job DROP KEY job_schedule',
    'DO 0'
);

PREPARE change_jobs FROM @change;

EXECUTE change_jobs;

DEALLOCATE PREPARE change_jobs;
