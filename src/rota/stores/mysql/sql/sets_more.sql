-- Whether a job sets more than nearly every job does: then a claim tells all of it.
job.blockers <> 0 OR coalesce(
    job.backoff, job.timeout, job.expires_at, job.cancel_requested_at, job.result, job.error, job.reason,
    job.idempotency_key, job.concurrency_key, job.tags, job.meta, job.on_success, job.on_failure, job.parent_id,
    job.schedule_id, job.fire_time
) IS NOT NULL
