-- All tables. schema.sql describes them. {schema} is the schema of the store's URL with a dot, or nothing.

-- Unfinished jobs. `turn` is the time at which the job became due, moved ahead by its priority: lower goes first.
-- `is_awaited` is set once another job depends on this one; such a job is not settled by the fast path.
-- Rows are inserted and deleted all the time, so autovacuum starts early.
CREATE TABLE {schema}rota_job (
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
    CONSTRAINT rota_job_pkey PRIMARY KEY (id),
    CONSTRAINT rota_job_has_a_lease_while_it_runs CHECK ((lease_until IS NOT NULL) = (state = 'running'))
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX rota_job_turn ON {schema}rota_job (queue, type, turn, id) WHERE state = 'pending';
CREATE INDEX rota_job_time ON {schema}rota_job (run_at, id) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX rota_job_lease ON {schema}rota_job (lease_until, id) WHERE state = 'running';
CREATE INDEX rota_job_expiry ON {schema}rota_job (expires_at, id) WHERE expires_at IS NOT NULL;
CREATE INDEX rota_job_queued ON {schema}rota_job (queue) WHERE state = 'queued';
CREATE INDEX rota_job_waiting ON {schema}rota_job (state, id) WHERE state IN ('pending', 'scheduled', 'retrying', 'blocked', 'queued');
CREATE INDEX rota_job_schedule ON {schema}rota_job (schedule_id, id) WHERE schedule_id IS NOT NULL;

-- Finished jobs.
CREATE TABLE {schema}rota_job_done (
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
    CONSTRAINT rota_job_done_pkey PRIMARY KEY (id),
    CONSTRAINT rota_job_done_is_finished CHECK (
        state IN ('completed', 'dead', 'cancelled') AND finished_at IS NOT NULL AND lease_until IS NULL
    )
) PARTITION BY RANGE (id);

CREATE TABLE {schema}rota_job_done_rest PARTITION OF {schema}rota_job_done DEFAULT;

-- Without the id: a plan made while a partition is empty must not use this index to look up ids.
CREATE INDEX rota_job_done_finished ON {schema}rota_job_done (state, finished_at);
CREATE INDEX rota_job_done_dead ON {schema}rota_job_done (fingerprint, id) WHERE state = 'dead';
CREATE INDEX rota_job_done_schedule ON {schema}rota_job_done (schedule_id, id) WHERE schedule_id IS NOT NULL;

-- Refuse an id whose job was inserted and finished by others while the inserting statement was running.
--
-- The snapshot of the statement shows neither the job nor its end, and the unique index no longer holds the id. No job
-- is submitted, run and settled within 0.4 ms, so only a statement that takes longer checks again, with a new snapshot,
-- which each query of a volatile function has. Nearly all statements that insert one job are faster.
CREATE FUNCTION {schema}rota_refuse_ended_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- OFFSET 0 keeps it one lookup by primary key for each job, whatever planner settings the caller's session has.
    IF EXISTS (
        SELECT 1 FROM stored WHERE EXISTS (SELECT 1 FROM {schema}rota_job_done AS done WHERE done.id = stored.id OFFSET 0)
    ) THEN
        RAISE unique_violation USING MESSAGE = 'a job with this id has ended meanwhile';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER rota_job_ended_meanwhile AFTER INSERT ON {schema}rota_job REFERENCING NEW TABLE AS stored FOR EACH STATEMENT
WHEN (clock_timestamp() NOT BETWEEN statement_timestamp() AND statement_timestamp() + interval '400 microseconds')
EXECUTE FUNCTION {schema}rota_refuse_ended_jobs();

-- All jobs, unfinished and finished.
CREATE VIEW {schema}rota_any_job AS
SELECT
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
    worker, boot, lease_until, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff,
    payload, result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
    on_failure, parent_id, schedule_id, fire_time
FROM {schema}rota_job
UNION ALL
SELECT
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
    worker, boot, lease_until, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff,
    payload, result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
    on_failure, parent_id, schedule_id, fire_time
FROM {schema}rota_job_done;

-- Tags of jobs.
CREATE TABLE {schema}rota_tag (
    tag    text COLLATE "C" NOT NULL,
    job_id bigint           NOT NULL,
    PRIMARY KEY (tag, job_id)
);

CREATE INDEX rota_tag_job ON {schema}rota_tag (job_id);

-- Attempts (runs of a job under one fence), except plain successes.
CREATE TABLE {schema}rota_attempt (
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

-- A job (`child`) waits for another (`parent`); `met` once that is over. `position` orders the parents of a child.
CREATE TABLE {schema}rota_dependency (
    parent   bigint  NOT NULL,
    child    bigint  NOT NULL,
    need     text    NOT NULL,
    met      boolean NOT NULL DEFAULT false,
    position integer NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child)
);

CREATE INDEX rota_dependency_child ON {schema}rota_dependency (child);

-- Idempotency keys and their jobs; `request` is a hash of the submission.
CREATE TABLE {schema}rota_idempotency (
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    request    bytea            NOT NULL,
    job_id     bigint           NOT NULL,
    expires_at bigint           NOT NULL,
    PRIMARY KEY (scope, key)
);

CREATE INDEX rota_idempotency_job ON {schema}rota_idempotency (job_id);
CREATE INDEX rota_idempotency_expiry ON {schema}rota_idempotency (expires_at);

-- What a claim leased: JSON pairs of job and fence.
CREATE TABLE {schema}rota_claim (
    claim_id text COLLATE "C" PRIMARY KEY,
    at       bigint           NOT NULL,
    leases   text             NOT NULL
);

CREATE INDEX rota_claim_at ON {schema}rota_claim (at);

-- Claims of workers that found nothing: a submitter may lease its new job to one of them. `sign` is the number of an
-- advisory lock that is held while the worker's process listens on `channel`, whose name is secret. Only rows of the last
-- seconds count. Unlogged: after a crash of the server no claim waits any more.
CREATE UNLOGGED TABLE {schema}rota_open_claim (
    claim_id text COLLATE "C" PRIMARY KEY,
    worker   text COLLATE "C" NOT NULL,
    boot     text COLLATE "C" NOT NULL,
    lanes    text[]           NOT NULL,
    lease    bigint           NOT NULL,
    since    bigint           NOT NULL,
    until    bigint           NOT NULL,
    sign     bigint           NOT NULL,
    channel  text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX rota_open_claim_since ON {schema}rota_open_claim (since);

-- Guarded side effects: begun, and, once known to have happened, ended.
CREATE TABLE {schema}rota_step (
    job_id      bigint           NOT NULL,
    key         text COLLATE "C" NOT NULL,
    number      bigint           NOT NULL,
    began_under bigint           NOT NULL,
    began_at    bigint           NOT NULL,
    ended_at    bigint,
    outcome     text,
    PRIMARY KEY (job_id, key),
    CONSTRAINT rota_step_has_an_outcome_when_it_ended CHECK ((ended_at IS NULL) = (outcome IS NULL))
);

-- Recurring rules. `app` is the app whose code defines the schedule; NULL if it was created by hand.
CREATE TABLE {schema}rota_schedule (
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
    updated_at     bigint           NOT NULL,
    app            text
);

CREATE INDEX rota_schedule_due ON {schema}rota_schedule (next_fire_at, id) WHERE paused_at IS NULL AND next_fire_at IS NOT NULL;

-- The fate of each fire time of a schedule.
CREATE TABLE {schema}rota_occurrence (
    schedule_id bigint NOT NULL,
    fire_time   bigint NOT NULL,
    fate        text   NOT NULL,
    job_id      bigint,
    at          bigint NOT NULL,
    PRIMARY KEY (schedule_id, fire_time)
);

CREATE INDEX rota_occurrence_at ON {schema}rota_occurrence (at);

-- Settings of queues.
CREATE TABLE {schema}rota_queue (
    name         text COLLATE "C" PRIMARY KEY,
    paused_at    bigint,
    pause_reason text,
    resume_at    bigint,
    max_depth    bigint,
    max_running  bigint,
    rate_limit   text,
    version      bigint           NOT NULL
);

-- Processes of the cluster, as of their last heartbeat.
CREATE TABLE {schema}rota_member (
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

-- The current leader.
CREATE TABLE {schema}rota_leader (
    name   text COLLATE "C" PRIMARY KEY,
    holder text             NOT NULL,
    term   bigint           NOT NULL,
    until  bigint           NOT NULL
);

-- Named advisory locks that are held. The row with the empty name is no lock: its fence is the last one given.
CREATE TABLE {schema}rota_lock (
    name   text COLLATE "C" PRIMARY KEY,
    holder text             NOT NULL,
    fence  bigint           NOT NULL,
    since  bigint           NOT NULL,
    until  bigint           NOT NULL
);

-- Audit log of operators' actions; each entry's digest covers all before it.
CREATE TABLE {schema}rota_ledger (
    number bigint PRIMARY KEY,
    at     bigint NOT NULL,
    actor  text   NOT NULL,
    action text   NOT NULL,
    target text   NOT NULL,
    origin text   NOT NULL,
    detail text   NOT NULL,
    digest text   NOT NULL,
    surface text  NOT NULL
);

-- API tokens; only a hash is stored.
CREATE TABLE {schema}rota_token (
    id           text COLLATE "C" PRIMARY KEY,
    name         text             NOT NULL,
    digest       bytea            NOT NULL,
    role         text             NOT NULL,
    actions      text             NOT NULL,
    queues       text             NOT NULL,
    created_at   bigint           NOT NULL,
    expires_at   bigint,
    revoked_at   bigint
);

-- How many jobs retention has deleted, by final state.
CREATE TABLE {schema}rota_pruned (
    state text   PRIMARY KEY,
    count bigint NOT NULL
);

-- Actions on all jobs of a selection, done in batches. `due_at` is when a scheduler may do the next batch; NULL when it
-- has ended. `body` is all else, as JSON.
CREATE TABLE {schema}rota_operation (
    id      bigint PRIMARY KEY,
    due_at  bigint,
    version bigint NOT NULL,
    body    text   NOT NULL
);

CREATE INDEX rota_operation_due ON {schema}rota_operation (due_at) WHERE due_at IS NOT NULL;

-- History: counts of jobs (JSON) in buckets of `step` seconds, by lane. The lane of empty names is the total.
CREATE TABLE {schema}rota_history (
    step  integer          NOT NULL,
    at    bigint           NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type  text COLLATE "C" NOT NULL,
    tally text             NOT NULL,
    PRIMARY KEY (step, at, queue, type)
);

-- The totals, for charts of all jobs.
CREATE INDEX rota_history_total ON {schema}rota_history (step, at) WHERE queue = '';

-- The number of the last counts that each process has added to the history, so that none are added twice. The row of
-- the empty name is locked by the process that adds.
CREATE TABLE {schema}rota_history_writer (
    writer text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    at     bigint NOT NULL
);
