-- Every statement may be run again: MySQL commits each by itself, and a migration may be cut off between two.

-- One submission of a task. `turn` is the moment it became due, moved ahead by its priority: lower goes first.
CREATE TABLE IF NOT EXISTS rota_job (
    id                  BIGINT       NOT NULL,
    type                VARCHAR(255) NOT NULL,
    queue               VARCHAR(255) NOT NULL,
    priority            BIGINT       NOT NULL,
    state               VARCHAR(16)  NOT NULL,
    turn                BIGINT       NOT NULL,
    run_at              BIGINT       NOT NULL,
    created_at          BIGINT       NOT NULL,
    updated_at          BIGINT       NOT NULL,
    fence               BIGINT       NOT NULL DEFAULT 0,
    attempts            BIGINT       NOT NULL DEFAULT 0,
    crashes             BIGINT       NOT NULL DEFAULT 0,
    max_attempts        BIGINT       NOT NULL,
    worker              VARCHAR(255),
    boot                VARCHAR(255),
    started_at          BIGINT,
    finished_at         BIGINT,
    cancel_requested_at BIGINT,
    expires_at          BIGINT,
    timeout             BIGINT,
    delivery            VARCHAR(16)  NOT NULL,
    backoff             TEXT,
    payload             LONGTEXT     NOT NULL,
    result              LONGTEXT,
    error               LONGTEXT,
    reason              VARCHAR(32),
    fingerprint         VARCHAR(32),
    idempotency_key     VARCHAR(255),
    concurrency_key     VARCHAR(255),
    tags                LONGTEXT,
    meta                LONGTEXT,
    blockers            BIGINT       NOT NULL DEFAULT 0,
    on_success          LONGTEXT,
    on_failure          LONGTEXT,
    parent_id           BIGINT,
    schedule_id         BIGINT,
    fire_time           BIGINT,
    -- Padding, set to NULL when the job ends: a row that grows then splits its page, at three times the cost.
    room                VARCHAR(96) DEFAULT (repeat(' ', 96)),
    PRIMARY KEY (id),
    CONSTRAINT rota_job_state CHECK (
        state IN ('blocked', 'scheduled', 'pending', 'queued', 'retrying', 'completed', 'dead', 'cancelled')
    ),
    CONSTRAINT rota_job_end CHECK ((finished_at IS NOT NULL) = (state IN ('completed', 'dead', 'cancelled'))),
    CONSTRAINT rota_job_blockers CHECK (state <> 'blocked' OR blockers > 0),
    CONSTRAINT rota_job_attempts CHECK (attempts BETWEEN 0 AND max_attempts),
    CONSTRAINT rota_job_fence CHECK (attempts <= fence)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Pending jobs, in the order in which a lane is claimed: first those without a concurrency key, then key by key.
CREATE TABLE IF NOT EXISTS rota_ready (
    queue           VARCHAR(255) NOT NULL,
    type            VARCHAR(255) NOT NULL,
    concurrency_key VARCHAR(200) NOT NULL DEFAULT '',
    turn            BIGINT       NOT NULL,
    id              BIGINT       NOT NULL,
    run_at          BIGINT       NOT NULL,
    expires_at      BIGINT,
    PRIMARY KEY (queue, type, concurrency_key, turn, id),
    KEY rota_ready_id (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Running jobs: the worker, until when it holds the lease, and under which fence.
CREATE TABLE IF NOT EXISTS rota_lease (
    id                  BIGINT       NOT NULL,
    fence               BIGINT       NOT NULL,
    worker              VARCHAR(255) NOT NULL,
    boot                VARCHAR(255) NOT NULL,
    lease_until         BIGINT       NOT NULL,
    started_at          BIGINT       NOT NULL,
    updated_at          BIGINT       NOT NULL,
    cancel_requested_at BIGINT,
    expires_at          BIGINT,
    concurrency_key     VARCHAR(200),
    PRIMARY KEY (id),
    KEY rota_lease_end (lease_until, id),
    CONSTRAINT rota_lease_fence CHECK (fence > 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Jobs in state `scheduled` and `retrying`, in the order in which they become due.
CREATE TABLE IF NOT EXISTS rota_scheduled (
    run_at BIGINT       NOT NULL,
    id     BIGINT       NOT NULL,
    state  VARCHAR(16)  NOT NULL,
    queue  VARCHAR(255) NOT NULL,
    type   VARCHAR(255) NOT NULL,
    PRIMARY KEY (run_at, id),
    KEY rota_scheduled_state (state, id),
    KEY rota_scheduled_lane (state, queue, type)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Jobs in state `blocked` (wait for other jobs) and `queued` (handed to an external broker).
CREATE TABLE IF NOT EXISTS rota_held (
    id    BIGINT       NOT NULL,
    state VARCHAR(16)  NOT NULL,
    queue VARCHAR(255) NOT NULL,
    type  VARCHAR(255) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Finished jobs, by state and time of their end. `fingerprint` and `type` are the cause of a dead job.
CREATE TABLE IF NOT EXISTS rota_finished (
    state       VARCHAR(16) NOT NULL,
    finished_at BIGINT      NOT NULL,
    id          BIGINT      NOT NULL,
    fingerprint VARCHAR(32),
    type        VARCHAR(255),
    PRIMARY KEY (state, finished_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Unfinished jobs that expire if they have not started by a time.
CREATE TABLE IF NOT EXISTS rota_expiry (
    expires_at BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    PRIMARY KEY (expires_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Tags of jobs.
CREATE TABLE IF NOT EXISTS rota_tag (
    tag    VARCHAR(255) NOT NULL,
    job_id BIGINT       NOT NULL,
    PRIMARY KEY (tag, job_id),
    KEY rota_tag_job (job_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Jobs that a schedule has made; serves the list of the jobs of a schedule.
CREATE TABLE IF NOT EXISTS rota_fired (
    schedule_id BIGINT NOT NULL,
    job_id      BIGINT NOT NULL,
    PRIMARY KEY (schedule_id, job_id),
    KEY rota_fired_job (job_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Attempts: one run of a job under one fence, unless it was a plain success.
CREATE TABLE IF NOT EXISTS rota_attempt (
    job_id     BIGINT       NOT NULL,
    fence      BIGINT       NOT NULL,
    worker     VARCHAR(255) NOT NULL,
    boot       VARCHAR(255) NOT NULL,
    started_at BIGINT       NOT NULL,
    ended_at   BIGINT,
    event      VARCHAR(16),
    error      LONGTEXT,
    progress   LONGTEXT,
    log_tail   LONGTEXT,
    PRIMARY KEY (job_id, fence)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- A job (`child`) waits for another (`parent`); `met` is 1 once the wait is over. `position` orders the parents of a child.
CREATE TABLE IF NOT EXISTS rota_dependency (
    parent   BIGINT      NOT NULL,
    child    BIGINT      NOT NULL,
    need     VARCHAR(16) NOT NULL,
    met      BIGINT      NOT NULL DEFAULT 0,
    position BIGINT      NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child),
    KEY rota_dependency_child (child)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- A workflow: jobs with dependencies, submitted, shown and acted on as one.
CREATE TABLE IF NOT EXISTS rota_workflow (
    id         BIGINT       NOT NULL,
    name       VARCHAR(255) NOT NULL,
    policy     VARCHAR(16)  NOT NULL,
    nodes      BIGINT       NOT NULL,
    created_at BIGINT       NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- A node of a workflow and its job. `parents` are its dependencies, as JSON. A node that ran again has one row for each
-- job, and `replaced_by` in all but the last. `state` and `reason` are those of a job that retention has deleted.
CREATE TABLE IF NOT EXISTS rota_workflow_node (
    workflow_id        BIGINT       NOT NULL,
    position           BIGINT       NOT NULL,
    job_id             BIGINT       NOT NULL,
    name               VARCHAR(255) NOT NULL,
    parents            MEDIUMTEXT   NOT NULL,
    runs_after_failure BIGINT       NOT NULL,
    replaced_by        BIGINT,
    is_skipped         BIGINT       NOT NULL DEFAULT 0,
    state              VARCHAR(16),
    reason             VARCHAR(32),
    PRIMARY KEY (workflow_id, position, job_id),
    UNIQUE KEY rota_workflow_node_job (job_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Idempotency keys of submitters and their jobs; `request` is a hash of the submission.
CREATE TABLE IF NOT EXISTS rota_idempotency (
    scope      VARCHAR(255)  NOT NULL,
    `key`      VARCHAR(255)  NOT NULL,
    request    VARBINARY(64) NOT NULL,
    job_id     BIGINT        NOT NULL,
    expires_at BIGINT        NOT NULL,
    PRIMARY KEY (scope, `key`),
    KEY rota_idempotency_job (job_id),
    KEY rota_idempotency_expiry (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- The answer of a named claim, as pairs of job and fence, so that a repeated request gets the same jobs.
CREATE TABLE IF NOT EXISTS rota_claim (
    claim_id VARCHAR(255) NOT NULL,
    at       BIGINT       NOT NULL,
    leases   LONGTEXT     NOT NULL,
    PRIMARY KEY (claim_id),
    KEY rota_claim_at (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Steps: side effects guarded by (job, key). The primary key has a digest, because keys may be long.
CREATE TABLE IF NOT EXISTS rota_step (
    job_id      BIGINT     NOT NULL,
    key_digest  BINARY(32) NOT NULL,
    `key`       LONGTEXT   NOT NULL,
    number      BIGINT     NOT NULL,
    began_under BIGINT     NOT NULL,
    began_at    BIGINT     NOT NULL,
    ended_at    BIGINT,
    outcome     LONGTEXT,
    kind        VARCHAR(16) NOT NULL DEFAULT 'effect',
    until       BIGINT,
    subject     VARCHAR(255),
    PRIMARY KEY (job_id, key_digest),
    CONSTRAINT rota_step_end CHECK ((ended_at IS NULL) = (outcome IS NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Events that jobs wait for; `at` is NULL until it is emitted. The row of an event that was not emitted is a lock for
-- those who begin to wait for it, and may be deleted at any time.
CREATE TABLE IF NOT EXISTS rota_event (
    name       VARCHAR(255) NOT NULL,
    payload    LONGTEXT,
    at         BIGINT,
    expires_at BIGINT       NOT NULL,
    PRIMARY KEY (name),
    KEY rota_event_expiry (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Steps that wait for an event, until it is emitted or `due_at` has come.
CREATE TABLE IF NOT EXISTS rota_waiter (
    job_id BIGINT       NOT NULL,
    `key`  VARCHAR(255) NOT NULL,
    event  VARCHAR(255) NOT NULL,
    due_at BIGINT,
    PRIMARY KEY (job_id, `key`),
    KEY rota_waiter_event (event),
    KEY rota_waiter_due (due_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Schedules: recurring rules.
CREATE TABLE IF NOT EXISTS rota_schedule (
    id             BIGINT       NOT NULL,
    name           VARCHAR(255) NOT NULL,
    rule           TEXT         NOT NULL,
    zone           VARCHAR(255) NOT NULL,
    template       LONGTEXT     NOT NULL,
    catch_up       VARCHAR(16)  NOT NULL,
    catch_up_limit BIGINT       NOT NULL,
    grace          BIGINT       NOT NULL,
    overlap        VARCHAR(16)  NOT NULL,
    jitter         BIGINT       NOT NULL,
    start_at       BIGINT,
    end_at         BIGINT,
    blackouts      LONGTEXT,
    paused_at      BIGINT,
    pause_reason   TEXT,
    next_fire_at   BIGINT,
    last_fire_at   BIGINT,
    last_job_id    BIGINT,
    version        BIGINT       NOT NULL,
    created_at     BIGINT       NOT NULL,
    updated_at     BIGINT       NOT NULL,
    app            VARCHAR(255),
    PRIMARY KEY (id),
    UNIQUE KEY rota_schedule_name (name),
    KEY rota_schedule_due (paused_at, next_fire_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Occurrences: what became of each fire time of a schedule.
CREATE TABLE IF NOT EXISTS rota_occurrence (
    schedule_id BIGINT      NOT NULL,
    fire_time   BIGINT      NOT NULL,
    fate        VARCHAR(16) NOT NULL,
    job_id      BIGINT,
    at          BIGINT      NOT NULL,
    PRIMARY KEY (schedule_id, fire_time),
    KEY rota_occurrence_at (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Settings of queues.
CREATE TABLE IF NOT EXISTS rota_queue (
    name         VARCHAR(255) NOT NULL,
    paused_at    BIGINT,
    pause_reason TEXT,
    resume_at    BIGINT,
    max_depth    BIGINT,
    max_running  BIGINT,
    rate_limit   VARCHAR(255),
    version      BIGINT       NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- How many jobs of a queue, task or key may run at once, and how often they may start. A claim that meets limits locks
-- their rows; the row `key:`, made by the first claim that needs it, stands for all keys.
CREATE TABLE IF NOT EXISTS rota_limit (
    name                VARCHAR(255) NOT NULL,
    max_running         BIGINT,
    rate_limit          VARCHAR(255),
    per_key_max_running BIGINT,
    per_key_rate_limit  VARCHAR(255),
    weight              BIGINT,
    ordering            VARCHAR(16),
    on_full             VARCHAR(16),
    closed_until        BIGINT,
    reason              TEXT,
    app                 VARCHAR(255),
    set_by              VARCHAR(255) NOT NULL,
    set_at              BIGINT       NOT NULL,
    breaker             VARCHAR(255),
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- The theoretical arrival times of the rates of a limit: when the next start would be due at an even pace.
CREATE TABLE IF NOT EXISTS rota_rate (
    name           VARCHAR(255) NOT NULL,
    first_arrival  BIGINT       NOT NULL,
    second_arrival BIGINT       NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Circuit breakers: the rule, the tasks that wait for it, and the state.
CREATE TABLE IF NOT EXISTS rota_breaker (
    name       VARCHAR(255) NOT NULL,
    failures   DOUBLE       NOT NULL,
    counted    BIGINT       NOT NULL,
    least      BIGINT       NOT NULL,
    open_for   BIGINT       NOT NULL,
    probes     BIGINT       NOT NULL,
    tasks      LONGTEXT     NOT NULL,
    is_open    BOOLEAN      NOT NULL,
    is_forced  BOOLEAN      NOT NULL,
    since      BIGINT,
    open_until BIGINT,
    reason     TEXT,
    set_by     VARCHAR(255) NOT NULL,
    opened     BIGINT       NOT NULL,
    version    BIGINT       NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Calls of dependencies, and starts of tasks with a retry budget, by parts of a window and by process.
CREATE TABLE IF NOT EXISTS rota_call_count (
    name     VARCHAR(255) NOT NULL,
    slot     BIGINT       NOT NULL,
    source   VARCHAR(64)  NOT NULL,
    calls    BIGINT       NOT NULL,
    failures BIGINT       NOT NULL,
    PRIMARY KEY (name, slot, source)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Unfinished jobs with a concurrency key, in the order of their submission.
CREATE TABLE IF NOT EXISTS rota_sequence (
    concurrency_key VARCHAR(200) NOT NULL,
    id              BIGINT       NOT NULL,
    PRIMARY KEY (concurrency_key, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Processes of the cluster, as they last described themselves.
CREATE TABLE IF NOT EXISTS rota_member (
    boot        VARCHAR(255) NOT NULL,
    role        VARCHAR(16)  NOT NULL,
    name        VARCHAR(255) NOT NULL,
    host        VARCHAR(255) NOT NULL,
    pid         BIGINT       NOT NULL,
    version     VARCHAR(255) NOT NULL,
    address     TEXT         NOT NULL,
    queues      LONGTEXT     NOT NULL,
    types       LONGTEXT,
    slots       BIGINT       NOT NULL,
    busy        BIGINT       NOT NULL,
    is_draining BIGINT       NOT NULL,
    started_at  BIGINT       NOT NULL,
    seen_at     BIGINT       NOT NULL,
    facts       LONGTEXT,
    orders      LONGTEXT,
    PRIMARY KEY (boot)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Leaderships: holder, term, and until when it holds.
CREATE TABLE IF NOT EXISTS rota_leader (
    name   VARCHAR(255) NOT NULL,
    holder VARCHAR(255) NOT NULL,
    term   BIGINT       NOT NULL,
    until  BIGINT       NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Named advisory locks that are held. The row with the empty name is no lock: its fence is the last one given.
CREATE TABLE IF NOT EXISTS rota_lock (
    name   VARCHAR(255) NOT NULL,
    holder VARCHAR(255) NOT NULL,
    fence  BIGINT       NOT NULL,
    since  BIGINT       NOT NULL,
    until  BIGINT       NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Shared configuration that all processes follow. A removed key stays without a value, so that the sum of the versions
-- grows with every change.
CREATE TABLE IF NOT EXISTS rota_configuration (
    `key`   VARCHAR(255) NOT NULL,
    value   LONGTEXT,
    version BIGINT       NOT NULL,
    PRIMARY KEY (`key`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Audit log of operators' actions; the digest of an entry covers all entries before it.
CREATE TABLE IF NOT EXISTS rota_ledger (
    number BIGINT      NOT NULL,
    at     BIGINT      NOT NULL,
    actor  TEXT        NOT NULL,
    action TEXT        NOT NULL,
    target LONGTEXT    NOT NULL,
    origin TEXT        NOT NULL,
    detail LONGTEXT    NOT NULL,
    digest VARCHAR(64) NOT NULL,
    surface TEXT       NOT NULL,
    PRIMARY KEY (number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- API tokens, stored as hashes.
CREATE TABLE IF NOT EXISTS rota_token (
    id           VARCHAR(255)   NOT NULL,
    name         VARCHAR(255)   NOT NULL,
    digest       VARBINARY(255) NOT NULL,
    role         VARCHAR(255)   NOT NULL,
    actions      LONGTEXT       NOT NULL,
    queues       LONGTEXT       NOT NULL,
    limits       LONGTEXT       NOT NULL,
    created_at   BIGINT         NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Number of jobs that retention has deleted, by final state.
CREATE TABLE IF NOT EXISTS rota_pruned (
    state VARCHAR(16) NOT NULL,
    count BIGINT      NOT NULL,
    PRIMARY KEY (state)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Notifications: how often each writer has made work. A changed number means that there may be new work.
CREATE TABLE IF NOT EXISTS rota_notification (
    origin VARCHAR(32) NOT NULL,
    number BIGINT      NOT NULL,
    at     BIGINT      NOT NULL,
    PRIMARY KEY (origin)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Bounded queues: a transaction that adds jobs locks the row of the queue, so that only one at a time counts them.
CREATE TABLE IF NOT EXISTS rota_queue_lock (
    queue VARCHAR(255) NOT NULL,
    PRIMARY KEY (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Actions on all jobs of a selection, done in batches. `due_at` is when a scheduler may do the next batch; NULL when it
-- has ended. `body` is all else, as JSON.
CREATE TABLE IF NOT EXISTS rota_operation (
    id      BIGINT     NOT NULL,
    due_at  BIGINT,
    version BIGINT     NOT NULL,
    body    MEDIUMTEXT NOT NULL,
    PRIMARY KEY (id),
    KEY rota_operation_due (due_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Webhooks: addresses that are told of events. `body` is all but id and version, as JSON, with the secret that signs.
CREATE TABLE IF NOT EXISTS rota_webhook (
    id      VARCHAR(255) NOT NULL,
    version BIGINT       NOT NULL,
    body    MEDIUMTEXT   NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Namespaces: the other stores of this deployment; only in the default one. `body` is all but name and version, as JSON.
CREATE TABLE IF NOT EXISTS rota_namespace (
    name    VARCHAR(255) NOT NULL,
    version BIGINT       NOT NULL,
    body    MEDIUMTEXT   NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- An operator's note on dead jobs of one type and cause; the fingerprint is empty where there was no error.
CREATE TABLE IF NOT EXISTS rota_dead_note (
    type        VARCHAR(255) NOT NULL,
    fingerprint VARCHAR(32)  NOT NULL,
    text        TEXT         NOT NULL,
    set_by      VARCHAR(255) NOT NULL,
    set_at      BIGINT       NOT NULL,
    PRIMARY KEY (type, fingerprint)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- A saved view of the list of jobs; the owner is empty where everybody sees it.
CREATE TABLE IF NOT EXISTS rota_saved_view (
    owner    VARCHAR(255) NOT NULL,
    name     VARCHAR(255) NOT NULL,
    query    TEXT         NOT NULL,
    saved_by VARCHAR(255) NOT NULL,
    saved_at BIGINT       NOT NULL,
    PRIMARY KEY (owner, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- History: counts of jobs (JSON) in buckets of `step` seconds, by lane. The lane of empty names is the total.
CREATE TABLE IF NOT EXISTS rota_history (
    step  INT          NOT NULL,
    at    BIGINT       NOT NULL,
    queue VARCHAR(255) NOT NULL,
    type  VARCHAR(255) NOT NULL,
    tally LONGTEXT     NOT NULL,
    PRIMARY KEY (step, at, queue, type),
    KEY rota_history_total (step, queue, at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- The number of the last counts that each process has added to the history, so that none are added twice. The row of
-- the empty name is locked by the process that adds.
CREATE TABLE IF NOT EXISTS rota_history_writer (
    writer VARCHAR(64) NOT NULL,
    number BIGINT      NOT NULL,
    at     BIGINT      NOT NULL,
    PRIMARY KEY (writer)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- The JSON Schema of the payloads of each task type, as workers registered it, and when they last did.
CREATE TABLE IF NOT EXISTS rota_payload_schema (
    type VARCHAR(255) NOT NULL,
    body MEDIUMTEXT   NOT NULL,
    at   BIGINT       NOT NULL,
    PRIMARY KEY (type)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};
