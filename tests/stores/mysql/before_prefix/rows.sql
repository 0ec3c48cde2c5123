-- Rows of a store that the last release without the prefix has written: a completed job (101), a running one (102), one
-- that waits for it (103), a scheduled one (104), a pending one (105), and the settings of a queue.
INSERT INTO `bell` (`origin`, `number`, `at`)
    VALUES ('17a96fbd1b4abf8b-1', 4, 1772366400123457);
INSERT INTO `dependency` (`parent`, `child`, `need`, `met`)
    VALUES (102, 103, 'success', 0);
INSERT INTO `finished` (`state`, `finished_at`, `id`)
    VALUES ('completed', 1772366400123457, 101);
INSERT INTO `held` (`id`, `state`, `queue`, `type`)
    VALUES (103, 'blocked', 'default', 'old');
INSERT INTO `idempotency` (`scope`, `key`, `request`, `job_id`, `expires_at`)
    VALUES ('r', 's', x'6b', 102, 4925966400123457);
INSERT INTO `job` (`id`, `type`, `queue`, `priority`, `state`, `turn`, `run_at`, `created_at`, `updated_at`, `fence`, `attempts`, `crashes`, `max_attempts`, `worker`, `boot`, `started_at`, `finished_at`, `delivery`, `payload`, `result`, `blockers`)
    VALUES (101, 'old', 'default', 5, 'completed', 1772348400123457, 1772366400123457, 1772366400123457, 1772366400123457, 1, 1, 0, 3, 'ada', 'boot-1', 1772366400123457, 1772366400123457, 'at_least_once', 'null', '1', 0);
INSERT INTO `job` (`id`, `type`, `queue`, `priority`, `state`, `turn`, `run_at`, `created_at`, `updated_at`, `fence`, `attempts`, `crashes`, `max_attempts`, `delivery`, `payload`, `idempotency_key`, `tags`, `blockers`)
    VALUES (102, 'old', 'default', 5, 'pending', 1772348400123457, 1772366400123457, 1772366400123457, 1772366400123457, 0, 0, 0, 3, 'at_least_once', 'null', 's', '["red"]', 0);
INSERT INTO `job` (`id`, `type`, `queue`, `priority`, `state`, `turn`, `run_at`, `created_at`, `updated_at`, `fence`, `attempts`, `crashes`, `max_attempts`, `delivery`, `payload`, `blockers`)
    VALUES (103, 'old', 'default', 5, 'blocked', 1772348400123457, 1772366400123457, 1772366400123457, 1772366400123457, 0, 0, 0, 3, 'at_least_once', 'null', 1);
INSERT INTO `job` (`id`, `type`, `queue`, `priority`, `state`, `turn`, `run_at`, `created_at`, `updated_at`, `fence`, `attempts`, `crashes`, `max_attempts`, `delivery`, `payload`, `blockers`)
    VALUES (104, 'old', 'default', 5, 'scheduled', 1772352000123457, 1772370000123457, 1772366400123457, 1772366400123457, 0, 0, 0, 3, 'at_least_once', 'null', 0);
INSERT INTO `job` (`id`, `type`, `queue`, `priority`, `state`, `turn`, `run_at`, `created_at`, `updated_at`, `fence`, `attempts`, `crashes`, `max_attempts`, `delivery`, `payload`, `blockers`)
    VALUES (105, 'old', 'default', 5, 'pending', 1772348400123457, 1772366400123457, 1772366400123457, 1772366400123457, 0, 0, 0, 3, 'at_least_once', 'null', 0);
INSERT INTO `lease` (`id`, `fence`, `worker`, `boot`, `lease_until`, `started_at`, `updated_at`)
    VALUES (102, 1, 'ada', 'boot-1', 1772366415123457, 1772366400123457, 1772366400123457);
INSERT INTO `migration` (`number`, `name`, `digest`, `applied_at`)
    VALUES (1, '0001_first', 'b615a2d3cea4ac271db7db5070bc9027d6aee3b05d7219c22635e920dc0fdf91', 1794976949242105);
INSERT INTO `migration` (`number`, `name`, `digest`, `applied_at`)
    VALUES (2, '0002_fired', '3e035ad9d4372e2203e4398dca004e1cfc738aef821ee3f5643e21cf5e7c63f7', 1794976949242105);
INSERT INTO `migration` (`number`, `name`, `digest`, `applied_at`)
    VALUES (3, '0003_lists', 'fe22ebe1bf3b6c790508a63372a2a7ed777e41c6438809ebb4587b484982b824', 1794976949242105);
INSERT INTO `migration` (`number`, `name`, `digest`, `applied_at`)
    VALUES (4, '0004_schedule_app', '1bc723f487cb9d455664c88a7a0ec10db5160844cfa0c01e6a7c0f047f8991b2', 1794976949242105);
INSERT INTO `queue` (`name`, `max_depth`, `version`)
    VALUES ('slow', 5, 1);
INSERT INTO `ready` (`queue`, `type`, `turn`, `id`, `run_at`)
    VALUES ('default', 'old', 1772348400123457, 105, 1772366400123457);
INSERT INTO `scheduled` (`run_at`, `id`, `state`, `queue`, `type`)
    VALUES (1772370000123457, 104, 'scheduled', 'default', 'old');
INSERT INTO `tag` (`tag`, `job_id`)
    VALUES ('red', 102);
INSERT INTO `queue` (`name`, `pause_reason`, `version`)
  VALUES ('/configuration', '{"log_level": "debug"}', 1);
