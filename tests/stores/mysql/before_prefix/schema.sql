-- The database as all migrations together leave it; a test compares the two.
--
-- MySQL has no partial indexes, so what SQLite and PostgreSQL keep in one is here a narrow table of its own: the place
-- where a job stands. A submission becomes a row of `job`, which is wide, cold and written twice in a plain life: when
-- it comes and when it ends. Beside it the job stands in exactly one place: `held` while it is blocked or queued,
-- `scheduled` while it is scheduled or retrying, `ready` while it is pending, `lease` while it runs, `finished` after
-- its end; and in `expiry` as long as it is unfinished and has a latest start. `ready` is clustered in the order of
-- claims, so a claim reads as many rows as it takes.
--
-- While a job runs, its `lease` overlays its row: worker, fence, start, the wish that it should stop. `job.state` is
-- then what it was before the claim, and `job.fence` and `job.attempts` are one less than what is shown. The
-- settlement copies the lease into the job and deletes it. So whoever has the row of `ready` or `lease` locked owns
-- the job's next move; all other moves lock the row of `job`.
--
-- A settlement leaves a row of `attempt` unless the attempt was a plain success. `claim` remembers named claims,
-- `dependency` who waits for whom, `idempotency` the submitters' keys, `tag` the words jobs are found by, `step` the
-- guarded effects. A `schedule` makes jobs, one for each fire time, recorded in `occurrence`; by `fired` the jobs that it
-- made are found. `queue` has the settings of queues, `member` the processes that take part, `leader` which of them
-- leads, `ledger` what operators did, `token` who may. `pruned` counts what retention has deleted: nothing disappears.
-- `bell` lets other processes hear of new work, `gate` keeps bounded queues within bounds.
--
-- Times and spans are whole microseconds, times since 1970 in UTC. Payloads, results and the like are JSON text. The
-- collation compares characters by their number and takes trailing spaces seriously; its name depends on the server.

-- Which migrations this database has seen.
CREATE TABLE migration (
    number     BIGINT       NOT NULL,
    name       VARCHAR(255) NOT NULL,
    digest     VARCHAR(64)  NOT NULL,
    applied_at BIGINT       NOT NULL,
    PRIMARY KEY (number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- One submission of a task. `turn` is the moment it became due, moved ahead by its priority: lower goes first.
CREATE TABLE job (
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
    -- Kept free for what the end of the job will write: a row that grows splits its page, at three times the cost.
    room                VARCHAR(96) DEFAULT (repeat(' ', 96)),
    PRIMARY KEY (id),
    CONSTRAINT job_state CHECK (
        state IN ('blocked', 'scheduled', 'pending', 'queued', 'retrying', 'completed', 'dead', 'cancelled')
    ),
    CONSTRAINT job_end CHECK ((finished_at IS NOT NULL) = (state IN ('completed', 'dead', 'cancelled'))),
    CONSTRAINT job_blockers CHECK (state <> 'blocked' OR blockers > 0),
    CONSTRAINT job_attempts CHECK (attempts BETWEEN 0 AND max_attempts),
    CONSTRAINT job_fence CHECK (attempts <= fence)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Pending jobs, in the order in which a lane is claimed.
CREATE TABLE ready (
    queue      VARCHAR(255) NOT NULL,
    type       VARCHAR(255) NOT NULL,
    turn       BIGINT       NOT NULL,
    id         BIGINT       NOT NULL,
    run_at     BIGINT       NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (queue, type, turn, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Running jobs: who has them, until when, and under which fence.
CREATE TABLE lease (
    id                  BIGINT       NOT NULL,
    fence               BIGINT       NOT NULL,
    worker              VARCHAR(255) NOT NULL,
    boot                VARCHAR(255) NOT NULL,
    lease_until         BIGINT       NOT NULL,
    started_at          BIGINT       NOT NULL,
    updated_at          BIGINT       NOT NULL,
    cancel_requested_at BIGINT,
    expires_at          BIGINT,
    PRIMARY KEY (id),
    KEY lease_end (lease_until, id),
    CONSTRAINT lease_fence CHECK (fence > 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Jobs that wait for their time, in the order of their time: `scheduled` and `retrying`.
CREATE TABLE scheduled (
    run_at BIGINT       NOT NULL,
    id     BIGINT       NOT NULL,
    state  VARCHAR(16)  NOT NULL,
    queue  VARCHAR(255) NOT NULL,
    type   VARCHAR(255) NOT NULL,
    PRIMARY KEY (run_at, id),
    KEY scheduled_state (state, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Jobs that wait for something else than a worker or their time: `blocked` and `queued`.
CREATE TABLE held (
    id    BIGINT       NOT NULL,
    state VARCHAR(16)  NOT NULL,
    queue VARCHAR(255) NOT NULL,
    type  VARCHAR(255) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Jobs that have ended, by how and when.
CREATE TABLE finished (
    state       VARCHAR(16) NOT NULL,
    finished_at BIGINT      NOT NULL,
    id          BIGINT      NOT NULL,
    fingerprint VARCHAR(32),
    PRIMARY KEY (state, finished_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Unfinished jobs that must start before a moment.
CREATE TABLE expiry (
    expires_at BIGINT NOT NULL,
    id         BIGINT NOT NULL,
    PRIMARY KEY (expires_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- The words a job is found by.
CREATE TABLE tag (
    tag    VARCHAR(255) NOT NULL,
    job_id BIGINT       NOT NULL,
    PRIMARY KEY (tag, job_id),
    KEY tag_job (job_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Jobs that a schedule has made, for those who ask for them.
CREATE TABLE fired (
    schedule_id BIGINT NOT NULL,
    job_id      BIGINT NOT NULL,
    PRIMARY KEY (schedule_id, job_id),
    KEY fired_job (job_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- One run of a job under one fence, if it was anything but a plain success.
CREATE TABLE attempt (
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

-- A job (`child`) waits for another (`parent`); `met` once that wait is over.
CREATE TABLE dependency (
    parent BIGINT      NOT NULL,
    child  BIGINT      NOT NULL,
    need   VARCHAR(16) NOT NULL,
    met    BIGINT      NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child),
    KEY dependency_child (child)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- A submitter's key and the job it stands for; `request` is a hash of what was asked.
CREATE TABLE idempotency (
    scope      VARCHAR(255)  NOT NULL,
    `key`      VARCHAR(255)  NOT NULL,
    request    VARBINARY(64) NOT NULL,
    job_id     BIGINT        NOT NULL,
    expires_at BIGINT        NOT NULL,
    PRIMARY KEY (scope, `key`),
    KEY idempotency_job (job_id),
    KEY idempotency_expiry (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- What a named claim gave: pairs of job and fence.
CREATE TABLE claim (
    claim_id VARCHAR(255) NOT NULL,
    at       BIGINT       NOT NULL,
    leases   LONGTEXT     NOT NULL,
    PRIMARY KEY (claim_id),
    KEY claim_at (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- A guarded effect: begun, and, once it is known to have happened, ended. Found by a digest, for a key may be long.
CREATE TABLE step (
    job_id      BIGINT     NOT NULL,
    key_digest  BINARY(32) NOT NULL,
    `key`       LONGTEXT   NOT NULL,
    number      BIGINT     NOT NULL,
    began_under BIGINT     NOT NULL,
    began_at    BIGINT     NOT NULL,
    ended_at    BIGINT,
    outcome     LONGTEXT,
    PRIMARY KEY (job_id, key_digest),
    CONSTRAINT step_end CHECK ((ended_at IS NULL) = (outcome IS NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- A recurring rule.
CREATE TABLE schedule (
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
    UNIQUE KEY schedule_name (name),
    KEY schedule_due (paused_at, next_fire_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- What became of one fire time of a schedule, once and for all.
CREATE TABLE occurrence (
    schedule_id BIGINT      NOT NULL,
    fire_time   BIGINT      NOT NULL,
    fate        VARCHAR(16) NOT NULL,
    job_id      BIGINT,
    at          BIGINT      NOT NULL,
    PRIMARY KEY (schedule_id, fire_time),
    KEY occurrence_at (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- The settings of a queue.
CREATE TABLE queue (
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

-- A process that takes part, as it last described itself.
CREATE TABLE `member` (
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
    PRIMARY KEY (boot)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Who leads.
CREATE TABLE leader (
    name   VARCHAR(255) NOT NULL,
    holder VARCHAR(255) NOT NULL,
    term   BIGINT       NOT NULL,
    until  BIGINT       NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- What operators did; each entry's digest binds it to all before it.
CREATE TABLE ledger (
    number BIGINT      NOT NULL,
    at     BIGINT      NOT NULL,
    actor  TEXT        NOT NULL,
    action TEXT        NOT NULL,
    target LONGTEXT    NOT NULL,
    origin TEXT        NOT NULL,
    detail LONGTEXT    NOT NULL,
    digest VARCHAR(64) NOT NULL,
    PRIMARY KEY (number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- A key to the API, of which only a hash is kept.
CREATE TABLE token (
    id           VARCHAR(255)   NOT NULL,
    name         VARCHAR(255)   NOT NULL,
    digest       VARBINARY(255) NOT NULL,
    scopes       LONGTEXT       NOT NULL,
    queues       LONGTEXT       NOT NULL,
    created_at   BIGINT         NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- How many jobs retention has deleted, by the state they ended in.
CREATE TABLE pruned (
    state VARCHAR(16) NOT NULL,
    count BIGINT      NOT NULL,
    PRIMARY KEY (state)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- How often each writer has made work: whoever sees a number move knows that there may be some.
CREATE TABLE bell (
    origin VARCHAR(32) NOT NULL,
    number BIGINT      NOT NULL,
    at     BIGINT      NOT NULL,
    PRIMARY KEY (origin)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Queues with a bound: their rows are locked by whoever puts something in, one at a time.
CREATE TABLE gate (
    queue VARCHAR(255) NOT NULL,
    PRIMARY KEY (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};
