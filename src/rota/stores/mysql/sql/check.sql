-- name: table_sizes
-- Read the sizes of our tables and the estimates of their rows. The server's catalogue.
SELECT table_name, coalesce(table_rows, 0), coalesce(data_length, 0) + coalesce(index_length, 0)
FROM information_schema.tables
WHERE table_schema = database() AND table_name LIKE 'rota\_%%'
ORDER BY 3 DESC, 1;

-- name: check_tables
-- Let the server check all tables.
CHECK TABLE rota_migration, rota_job, rota_ready, rota_lease, rota_scheduled, rota_held, rota_finished, rota_expiry,
    rota_tag, rota_fired, rota_attempt, rota_dependency, rota_idempotency, rota_claim, rota_step, rota_schedule,
    rota_occurrence, rota_queue, rota_member, rota_leader, rota_ledger, rota_token, rota_pruned, rota_notification,
    rota_queue_lock, rota_limit, rota_rate, rota_sequence, rota_breaker, rota_call_count;

-- name: pending_but_not_ready
-- Find pending jobs that no claim can see. Reads all jobs.
SELECT job.id FROM rota_job AS job
    LEFT JOIN rota_ready AS ready ON ready.queue = job.queue AND ready.type = job.type
        AND ready.concurrency_key = coalesce(job.concurrency_key, '') AND ready.turn = job.turn AND ready.id = job.id
    LEFT JOIN rota_lease AS lease ON lease.id = job.id
WHERE job.state = 'pending' AND ready.id IS NULL AND lease.id IS NULL LIMIT 10;

-- name: ready_but_not_pending
-- Find claimable jobs that are not pending. Primary key of rota_job.
SELECT ready.id FROM rota_ready AS ready
    LEFT JOIN rota_job AS job ON job.id = ready.id AND job.queue = ready.queue AND job.type = ready.type
        AND job.turn = ready.turn AND coalesce(job.concurrency_key, '') = ready.concurrency_key
    LEFT JOIN rota_lease AS lease ON lease.id = ready.id
WHERE job.id IS NULL OR job.state <> 'pending' OR lease.id IS NOT NULL LIMIT 10;

-- name: timed_but_not_scheduled
-- Find scheduled and retrying jobs that are never promoted. Reads all jobs.
SELECT job.id FROM rota_job AS job LEFT JOIN rota_scheduled AS scheduled USING (run_at, id, state)
WHERE job.state IN ('scheduled', 'retrying') AND scheduled.id IS NULL LIMIT 10;

-- name: leased_but_not_running
-- Find leases whose job cannot run. Primary key of rota_job.
SELECT lease.id FROM rota_lease AS lease LEFT JOIN rota_job AS job ON job.id = lease.id
WHERE job.id IS NULL OR job.state NOT IN ('pending', 'queued') OR lease.fence <> job.fence + 1 LIMIT 10;

-- name: ended_but_not_finished
-- Find ended jobs without a row in rota_finished. Reads all jobs.
SELECT job.id FROM rota_job AS job LEFT JOIN rota_finished AS finished USING (state, finished_at, id)
WHERE job.finished_at IS NOT NULL AND finished.id IS NULL LIMIT 10;

-- name: finished_but_not_ended
-- Find rows of rota_finished whose job has not ended so. Primary key of rota_job.
SELECT finished.id FROM rota_finished AS finished LEFT JOIN rota_job AS job USING (state, finished_at, id)
WHERE job.id IS NULL LIMIT 10;

-- name: made_by_schedule_but_not_fired
-- Find jobs of schedules without a row in rota_fired. Reads all jobs.
SELECT job.id FROM rota_job AS job
    LEFT JOIN rota_fired AS fired ON fired.schedule_id = job.schedule_id AND fired.job_id = job.id
WHERE job.schedule_id IS NOT NULL AND fired.job_id IS NULL LIMIT 10;
