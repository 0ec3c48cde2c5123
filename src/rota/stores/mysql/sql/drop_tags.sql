-- Delete what belongs to pruned jobs. Served by tag_job.
DELETE tag FROM tag FORCE INDEX (tag_job) WHERE job_id IN %(ids)s
