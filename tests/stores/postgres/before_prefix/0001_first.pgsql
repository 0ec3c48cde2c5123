-- The tables as schema.sql describes them.
-- One unfinished submission of a task. `turn` is the moment it became due, moved ahead by its priority: lower goes first.
-- `is_awaited` once another job waits for this one: its end then takes longer, since it must let go of others.
-- Rows come and go all the time, so dead ones are cleared early.
CREATE TABLE job (
    id                  bigint           NOT NULL,
    type                text COLLATE "C" NOT NULL,
    queue               text COLLATE "C" NOT NULL,
    priority            smallint         NOT NULL,
    state               text             NOT NULL,
    turn                bigint           NOT NULL,
    run_at              bigint           NOT NULL,
    created_at          bigint           NOT NULL,
    updated_at          bigint           NOT NULL,
    fence               bigint           NOT NULL DEFAULT 0,
    attempts            bigint           NOT NULL DEFAULT 0,
    crashes             bigint           NOT NULL DEFAULT 0,
    max_attempts        bigint           NOT NULL,
    worker              text COLLATE "C",
    boot                text,
    lease_until         bigint,
    started_at          bigint,
    finished_at         bigint,
    cancel_requested_at bigint,
    expires_at          bigint,
    timeout             bigint,
    delivery            text             NOT NULL,
    backoff             text,
    payload             text             NOT NULL,
    result              text,
    error               text,
    reason              text,
    fingerprint         text,
    idempotency_key     text,
    concurrency_key     text,
    tags                text,
    meta                text,
    blockers            integer          NOT NULL DEFAULT 0,
    on_success          text,
    on_failure          text,
    parent_id           bigint,
    schedule_id         bigint,
    fire_time           bigint,
    is_awaited          boolean          NOT NULL DEFAULT false,
    CONSTRAINT job_pkey PRIMARY KEY (id),
    CONSTRAINT job_is_unfinished CHECK (
        state IN ('pending', 'running', 'scheduled', 'retrying', 'blocked', 'queued') AND finished_at IS NULL
    ),
    CONSTRAINT job_has_a_lease_while_it_runs CHECK ((lease_until IS NOT NULL) = (state = 'running')),
    CONSTRAINT job_is_blocked_by_something CHECK (state <> 'blocked' OR blockers > 0),
    CONSTRAINT job_has_attempts_left CHECK (attempts BETWEEN 0 AND max_attempts),
    CONSTRAINT job_was_claimed_for_each_attempt CHECK (attempts <= fence)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX job_turn ON job (queue, type, turn, id) WHERE state = 'pending';
CREATE INDEX job_time ON job (run_at, id) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX job_lease ON job (lease_until, id) WHERE state = 'running';
CREATE INDEX job_expiry ON job (expires_at, id) WHERE expires_at IS NOT NULL;
CREATE INDEX job_queued ON job (queue) WHERE state = 'queued';
CREATE INDEX job_schedule ON job (schedule_id, id) WHERE schedule_id IS NOT NULL;

-- A job that has ended.
CREATE TABLE job_done (
    id                  bigint           NOT NULL,
    type                text COLLATE "C" NOT NULL,
    queue               text COLLATE "C" NOT NULL,
    priority            smallint         NOT NULL,
    state               text             NOT NULL,
    turn                bigint           NOT NULL,
    run_at              bigint           NOT NULL,
    created_at          bigint           NOT NULL,
    updated_at          bigint           NOT NULL,
    fence               bigint           NOT NULL DEFAULT 0,
    attempts            bigint           NOT NULL DEFAULT 0,
    crashes             bigint           NOT NULL DEFAULT 0,
    max_attempts        bigint           NOT NULL,
    worker              text COLLATE "C",
    boot                text,
    lease_until         bigint,
    started_at          bigint,
    finished_at         bigint,
    cancel_requested_at bigint,
    expires_at          bigint,
    timeout             bigint,
    delivery            text             NOT NULL,
    backoff             text,
    payload             text             NOT NULL,
    result              text,
    error               text,
    reason              text,
    fingerprint         text,
    idempotency_key     text,
    concurrency_key     text,
    tags                text,
    meta                text,
    blockers            integer          NOT NULL DEFAULT 0,
    on_success          text,
    on_failure          text,
    parent_id           bigint,
    schedule_id         bigint,
    fire_time           bigint,
    CONSTRAINT job_done_pkey PRIMARY KEY (id),
    CONSTRAINT job_done_is_finished CHECK (
        state IN ('completed', 'dead', 'cancelled') AND finished_at IS NOT NULL AND lease_until IS NULL
    )
) PARTITION BY RANGE (id);

CREATE TABLE job_done_rest PARTITION OF job_done DEFAULT;

-- Without the id: a plan made while a day is empty must not take this index for one that leads to ids.
CREATE INDEX job_done_finished ON job_done (state, finished_at);
CREATE INDEX job_done_dead ON job_done (fingerprint, id) WHERE state = 'dead';
CREATE INDEX job_done_schedule ON job_done (schedule_id, id) WHERE schedule_id IS NOT NULL;

-- All jobs.
CREATE VIEW any_job AS
SELECT
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
    worker, boot, lease_until, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff,
    payload, result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
    on_failure, parent_id, schedule_id, fire_time
FROM job
UNION ALL
SELECT
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
    worker, boot, lease_until, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff,
    payload, result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
    on_failure, parent_id, schedule_id, fire_time
FROM job_done;

-- The words a job is found by.
CREATE TABLE tag (
    tag    text COLLATE "C" NOT NULL,
    job_id bigint           NOT NULL,
    PRIMARY KEY (tag, job_id)
);

CREATE INDEX tag_job ON tag (job_id);

-- One run of a job under one fence, if it was anything but a plain success.
CREATE TABLE attempt (
    job_id     bigint NOT NULL,
    fence      bigint NOT NULL,
    worker     text   NOT NULL,
    boot       text   NOT NULL,
    started_at bigint NOT NULL,
    ended_at   bigint,
    event      text,
    error      text,
    progress   text,
    log_tail   text,
    PRIMARY KEY (job_id, fence)
);

-- A job (`child`) waits for another (`parent`); `met` once that wait is over.
CREATE TABLE dependency (
    parent bigint  NOT NULL,
    child  bigint  NOT NULL,
    need   text    NOT NULL,
    met    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (parent, child)
);

CREATE INDEX dependency_child ON dependency (child);

-- A submitter's key and the job it stands for; `request` is a hash of what was asked.
CREATE TABLE idempotency (
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    request    bytea            NOT NULL,
    job_id     bigint           NOT NULL,
    expires_at bigint           NOT NULL,
    PRIMARY KEY (scope, key)
);

CREATE INDEX idempotency_job ON idempotency (job_id);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

-- What a named claim gave: pairs of job and fence.
CREATE TABLE claim (
    claim_id text COLLATE "C" PRIMARY KEY,
    at       bigint           NOT NULL,
    leases   text             NOT NULL
);

CREATE INDEX claim_at ON claim (at);

-- A guarded effect: begun, and, once it is known to have happened, ended.
CREATE TABLE step (
    job_id      bigint           NOT NULL,
    key         text COLLATE "C" NOT NULL,
    number      bigint           NOT NULL,
    began_under bigint           NOT NULL,
    began_at    bigint           NOT NULL,
    ended_at    bigint,
    outcome     text,
    PRIMARY KEY (job_id, key),
    CONSTRAINT step_has_an_outcome_when_it_ended CHECK ((ended_at IS NULL) = (outcome IS NULL))
);

-- A recurring rule.
CREATE TABLE schedule (
    id             bigint           PRIMARY KEY,
    name           text COLLATE "C" NOT NULL UNIQUE,
    rule           text             NOT NULL,
    zone           text             NOT NULL,
    template       text             NOT NULL,
    catch_up       text             NOT NULL,
    catch_up_limit bigint           NOT NULL,
    grace          bigint           NOT NULL,
    overlap        text             NOT NULL,
    jitter         bigint           NOT NULL,
    start_at       bigint,
    end_at         bigint,
    blackouts      text,
    paused_at      bigint,
    pause_reason   text,
    next_fire_at   bigint,
    last_fire_at   bigint,
    last_job_id    bigint,
    version        bigint           NOT NULL,
    created_at     bigint           NOT NULL,
    updated_at     bigint           NOT NULL
);

CREATE INDEX schedule_due ON schedule (next_fire_at, id) WHERE paused_at IS NULL AND next_fire_at IS NOT NULL;

-- What became of one fire time of a schedule, once and for all.
CREATE TABLE occurrence (
    schedule_id bigint NOT NULL,
    fire_time   bigint NOT NULL,
    fate        text   NOT NULL,
    job_id      bigint,
    at          bigint NOT NULL,
    PRIMARY KEY (schedule_id, fire_time)
);

CREATE INDEX occurrence_at ON occurrence (at);

-- The settings of a queue.
CREATE TABLE queue (
    name         text COLLATE "C" PRIMARY KEY,
    paused_at    bigint,
    pause_reason text,
    resume_at    bigint,
    max_depth    bigint,
    max_running  bigint,
    rate_limit   text,
    version      bigint           NOT NULL
);

-- A process that takes part, as it last described itself.
CREATE TABLE member (
    boot        text COLLATE "C" PRIMARY KEY,
    role        text             NOT NULL,
    name        text COLLATE "C" NOT NULL,
    host        text             NOT NULL,
    pid         bigint           NOT NULL,
    version     text             NOT NULL,
    address     text             NOT NULL,
    queues      text             NOT NULL,
    types       text,
    slots       bigint           NOT NULL,
    busy        bigint           NOT NULL,
    is_draining boolean          NOT NULL,
    started_at  bigint           NOT NULL,
    seen_at     bigint           NOT NULL
);

-- Who leads.
CREATE TABLE leader (
    name   text COLLATE "C" PRIMARY KEY,
    holder text             NOT NULL,
    term   bigint           NOT NULL,
    until  bigint           NOT NULL
);

-- What operators did; each entry's digest binds it to all before it.
CREATE TABLE ledger (
    number bigint PRIMARY KEY,
    at     bigint NOT NULL,
    actor  text   NOT NULL,
    action text   NOT NULL,
    target text   NOT NULL,
    origin text   NOT NULL,
    detail text   NOT NULL,
    digest text   NOT NULL
);

-- A key to the API, of which only a hash is kept.
CREATE TABLE token (
    id           text COLLATE "C" PRIMARY KEY,
    name         text             NOT NULL,
    digest       bytea            NOT NULL,
    scopes       text             NOT NULL,
    queues       text             NOT NULL,
    created_at   bigint           NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint
);

-- How many jobs retention has deleted, by the state they ended in.
CREATE TABLE pruned (
    state text   PRIMARY KEY,
    count bigint NOT NULL
);
