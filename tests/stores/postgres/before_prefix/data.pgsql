-- A store as an earlier release left it: a pending job with a tag, a running one whose lease has lapsed, a finished one in
-- the partition of its day and one in the default partition, and the settings of a queue.
CREATE TABLE job_done_20260301 PARTITION OF job_done FOR VALUES FROM (1000) TO (2000);
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, tags
) VALUES (1, 'mail', 'default', 5, 'pending', 0, 0, 0, 0, 3, 'at_least_once', '"first"', '["old"]');
INSERT INTO job (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, worker, boot, lease_until, started_at
) VALUES (2, 'mail', 'default', 5, 'running', 0, 0, 0, 0, 3, 'at_least_once', '"second"', 1, 1, 'ada', 'boot', 1, 0);
INSERT INTO job_done (
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, max_attempts, delivery, payload, fence,
    attempts, finished_at
) VALUES
    (3, 'mail', 'default', 5, 'completed', 0, 0, 0, 0, 3, 'at_least_once', '"third"', 1, 1, 1),
    (1001, 'mail', 'default', 5, 'dead', 0, 0, 0, 0, 3, 'at_least_once', '"fourth"', 1, 1, 1);
INSERT INTO tag (tag, job_id) VALUES ('old', 1);
INSERT INTO queue (name, max_depth, version) VALUES ('default', 100, 1);
INSERT INTO queue (name, pause_reason, version) VALUES ('/configuration', '{"log_level": "debug"}', 1);
