-- The tables as the migrations leave them; a test compares the two.
--
-- rota_migration    applied migrations
-- rota_job          unfinished jobs only, so it stays small whatever the retention. Only pending rows are in the claim
--                   indexes, those with a concurrency key in one of their own, so jobs that are not due cost a claim
--                   nothing
-- rota_job_done     finished jobs, partitioned by the day on which they were created. Ids are ordered by time, so a job
--                   is found in one partition by its id, and a day past its retention is dropped as a whole. Upkeep adds
--                   and drops partitions; rota_job_done_rest is the default partition
-- rota_any_job      view of both
-- rota_tag          tags of jobs
-- rota_attempt      attempts that were anything but a plain success
-- rota_dependency   which job waits for which
-- rota_workflow     workflows; rota_workflow_node which job belongs to which
-- rota_idempotency  the submitters' idempotency keys
-- rota_claim        what each claim with an id leased, so that it can be repeated
-- rota_open_claim   claims that found nothing and wait for a new job
-- rota_step         guarded side effects, and waits
-- rota_event        events that jobs wait for
-- rota_waiter       steps that wait for events
-- rota_schedule     recurring rules; rota_occurrence the fate of each fire time
-- rota_queue        settings of queues
-- rota_limit        how many jobs may run at once and how often they may start; rota_rate when the next start is due
-- rota_breaker      circuit breakers; rota_call_count the calls that they count
-- rota_member       processes of the cluster; rota_leader which of them leads
-- rota_lock         named advisory locks
-- rota_configuration settings that all running processes follow
-- rota_ledger       audit log of operators' actions
-- rota_token        API tokens
-- rota_operation    actions on all jobs of a selection
-- rota_webhook      addresses that are told of events
-- rota_namespace    the other stores of this deployment
-- rota_dead_note    operators' notes on dead jobs of one cause
-- rota_saved_view   views of the list of jobs that people saved
-- rota_pruned       how many jobs retention has deleted
-- rota_history      counts of jobs by minute and hour; rota_history_writer which counts were added already
-- rota_payload_schema what the payloads of each task type look like
--
-- A claim makes a job `running` under a new fence. A settlement puts it back to waiting, or ends it and moves it to
-- rota_job_done.
--
-- Times and spans are whole microseconds, times since 1970 in UTC. Payloads, results and the like are JSON text, stored
-- unchanged. Names are compared byte by byte, so that their order is the same everywhere.

-- Applied migrations.
CREATE TABLE rota_migration (
    number     integer PRIMARY KEY,
    name       text    NOT NULL,
    digest     text    NOT NULL,
    applied_at bigint  NOT NULL
);

-- Unfinished jobs. `turn` is the time at which the job became due, moved ahead by its priority: lower goes first.
-- `is_awaited` is set once another job depends on this one; such a job is not settled by the fast path.
-- Rows are inserted and deleted all the time, so autovacuum starts early.
CREATE TABLE rota_job (
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
    concurrency_key     text COLLATE "C",
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

CREATE INDEX rota_job_turn ON rota_job (queue, type, turn, id) WHERE state = 'pending' AND concurrency_key IS NULL;
CREATE INDEX rota_job_key ON rota_job (queue, type, concurrency_key, turn, id)
WHERE state = 'pending' AND concurrency_key IS NOT NULL;
CREATE INDEX rota_job_sequence ON rota_job (concurrency_key, id) WHERE concurrency_key IS NOT NULL;
CREATE INDEX rota_job_time ON rota_job (run_at, id) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX rota_job_lease ON rota_job (lease_until, id) WHERE state = 'running';
CREATE INDEX rota_job_expiry ON rota_job (expires_at, id) WHERE expires_at IS NOT NULL;
CREATE INDEX rota_job_queued ON rota_job (queue) WHERE state = 'queued';
-- Serves lists. The condition on the id holds for every job; it keeps the planner from using this index for claims.
CREATE INDEX rota_job_waiting ON rota_job (state, id)
WHERE state IN ('pending', 'scheduled', 'retrying', 'blocked', 'queued') AND id >= 0;
CREATE INDEX rota_job_schedule ON rota_job (schedule_id, id) WHERE schedule_id IS NOT NULL;

-- Finished jobs.
CREATE TABLE rota_job_done (
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
    concurrency_key     text COLLATE "C",
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

CREATE TABLE rota_job_done_rest PARTITION OF rota_job_done DEFAULT;

-- Without the id: a plan made while a partition is empty must not use this index to look up ids.
CREATE INDEX rota_job_done_finished ON rota_job_done (state, finished_at);
CREATE INDEX rota_job_done_dead ON rota_job_done (fingerprint, id) WHERE state = 'dead';
-- All that groups of dead jobs by cause need, so that no row of a job is read.
CREATE INDEX rota_job_done_cause ON rota_job_done (fingerprint, type, finished_at, id) WHERE state = 'dead';
CREATE INDEX rota_job_done_schedule ON rota_job_done (schedule_id, id) WHERE schedule_id IS NOT NULL;

-- Refuse an id whose job was inserted and finished by others while the inserting statement was running.
--
-- The snapshot of the statement shows neither the job nor its end, and the unique index no longer holds the id. No job
-- is submitted, run and settled within 0.4 ms, so only a statement that takes longer checks again, with a new snapshot,
-- which each query of a volatile function has. Nearly all statements that insert one job are faster.
CREATE FUNCTION rota_refuse_ended_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- OFFSET 0 keeps it one lookup by primary key for each job, whatever planner settings the caller's session has.
    IF EXISTS (
        SELECT 1 FROM stored WHERE EXISTS (SELECT 1 FROM rota_job_done AS done WHERE done.id = stored.id OFFSET 0)
    ) THEN
        RAISE unique_violation USING MESSAGE = 'a job with this id has ended meanwhile';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER rota_job_ended_meanwhile AFTER INSERT ON rota_job REFERENCING NEW TABLE AS stored FOR EACH STATEMENT
WHEN (clock_timestamp() NOT BETWEEN statement_timestamp() AND statement_timestamp() + interval '400 microseconds')
EXECUTE FUNCTION rota_refuse_ended_jobs();

-- Partitions of finished jobs are added, locked and dropped by functions that run with the rights of their owner, so the
-- role that runs Rota needs no right to create or drop tables. They accept names of daily partitions only.
CREATE FUNCTION rota_add_partition(day text, lowest bigint, beyond bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF day !~ '^rota_job_done_\d{8}$' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'not the name of a daily partition';
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF rota_job_done FOR VALUES FROM (%s) TO (%s)', day, lowest, beyond);
END
$$;

-- Let nothing change in a partition until the end of the transaction.
CREATE FUNCTION rota_lock_partition(day text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF day !~ '^rota_job_done_\d{8}$' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'not the name of a daily partition';
    END IF;
    EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', day);
END
$$;

-- Drop a partition; the jobs that are to be kept move to the default partition.
CREATE FUNCTION rota_drop_partition(day text, kept bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF day !~ '^rota_job_done_\d{8}$' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'not the name of a daily partition';
    END IF;
    EXECUTE format('ALTER TABLE rota_job_done DETACH PARTITION %I', day);
    EXECUTE format('INSERT INTO rota_job_done SELECT * FROM %I WHERE id = ANY($1)', day) USING kept;
    EXECUTE format('DROP TABLE %I', day);
END
$$;

-- These functions find tables in the store's schema only, and nobody may call them who has not been granted it.
DO $$
DECLARE
    place regnamespace := (SELECT relnamespace FROM pg_class WHERE oid = 'rota_job_done'::regclass);
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'rota_add_partition(text, bigint, bigint)', 'rota_lock_partition(text)', 'rota_drop_partition(text, bigint[])'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %s.%s SET search_path = %s, pg_temp', place, signature, place);
        EXECUTE format('REVOKE ALL ON FUNCTION %s.%s FROM PUBLIC', place, signature);
    END LOOP;
END
$$;

-- All jobs, unfinished and finished.
CREATE VIEW rota_any_job AS
SELECT
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
    worker, boot, lease_until, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff,
    payload, result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
    on_failure, parent_id, schedule_id, fire_time
FROM rota_job
UNION ALL
SELECT
    id, type, queue, priority, state, turn, run_at, created_at, updated_at, fence, attempts, crashes, max_attempts,
    worker, boot, lease_until, started_at, finished_at, cancel_requested_at, expires_at, timeout, delivery, backoff,
    payload, result, error, reason, fingerprint, idempotency_key, concurrency_key, tags, meta, blockers, on_success,
    on_failure, parent_id, schedule_id, fire_time
FROM rota_job_done;

-- Tags of jobs.
CREATE TABLE rota_tag (
    tag    text COLLATE "C" NOT NULL,
    job_id bigint           NOT NULL,
    PRIMARY KEY (tag, job_id)
);

CREATE INDEX rota_tag_job ON rota_tag (job_id);

-- Attempts (runs of a job under one fence), except plain successes.
CREATE TABLE rota_attempt (
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
CREATE TABLE rota_dependency (
    parent   bigint  NOT NULL,
    child    bigint  NOT NULL,
    need     text    NOT NULL,
    met      boolean NOT NULL DEFAULT false,
    position integer NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child)
);

CREATE INDEX rota_dependency_child ON rota_dependency (child);

-- A workflow: jobs with dependencies, submitted, shown and acted on as one.
CREATE TABLE rota_workflow (
    id         bigint  PRIMARY KEY,
    name       text    NOT NULL,
    policy     text    NOT NULL,
    nodes      integer NOT NULL,
    created_at bigint  NOT NULL
);

-- A node of a workflow and its job. `parents` are its dependencies, as JSON. A node that ran again has one row for each
-- job, and `replaced_by` in all but the last. `state` and `reason` are those of a job that retention has deleted.
CREATE TABLE rota_workflow_node (
    workflow_id        bigint  NOT NULL,
    position           integer NOT NULL,
    job_id             bigint  NOT NULL,
    name               text    NOT NULL,
    parents            text    NOT NULL,
    runs_after_failure boolean NOT NULL,
    replaced_by        bigint,
    is_skipped         boolean NOT NULL DEFAULT false,
    state              text,
    reason             text,
    PRIMARY KEY (workflow_id, position, job_id)
);

CREATE UNIQUE INDEX rota_workflow_node_job ON rota_workflow_node (job_id);

-- Idempotency keys and their jobs; `request` is a hash of the submission.
CREATE TABLE rota_idempotency (
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    request    bytea            NOT NULL,
    job_id     bigint           NOT NULL,
    expires_at bigint           NOT NULL,
    PRIMARY KEY (scope, key)
);

CREATE INDEX rota_idempotency_job ON rota_idempotency (job_id);
CREATE INDEX rota_idempotency_expiry ON rota_idempotency (expires_at);

-- What a claim leased: JSON pairs of job and fence.
CREATE TABLE rota_claim (
    claim_id text COLLATE "C" PRIMARY KEY,
    at       bigint           NOT NULL,
    leases   text             NOT NULL
);

CREATE INDEX rota_claim_at ON rota_claim (at);

-- Claims of workers that found nothing: a submitter may lease its new job to one of them. `sign` is the number of an
-- advisory lock that is held while the worker's process listens on `channel`, whose name is secret. Only rows of the last
-- seconds count. Unlogged: after a crash of the server no claim waits any more.
CREATE UNLOGGED TABLE rota_open_claim (
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

CREATE INDEX rota_open_claim_since ON rota_open_claim (since);

-- Guarded side effects: begun, and, once known to have happened, ended.
CREATE TABLE rota_step (
    job_id      bigint           NOT NULL,
    key         text COLLATE "C" NOT NULL,
    number      bigint           NOT NULL,
    began_under bigint           NOT NULL,
    began_at    bigint           NOT NULL,
    ended_at    bigint,
    outcome     text,
    kind        text             NOT NULL DEFAULT 'effect',
    until       bigint,
    subject     text,
    PRIMARY KEY (job_id, key),
    CONSTRAINT rota_step_has_an_outcome_when_it_ended CHECK ((ended_at IS NULL) = (outcome IS NULL))
);

-- Events that jobs wait for; `at` is NULL until it is emitted. The row of an event that was not emitted is a lock for
-- those who begin to wait for it, and may be deleted at any time.
CREATE TABLE rota_event (
    name       text COLLATE "C" PRIMARY KEY,
    payload    text,
    at         bigint,
    expires_at bigint           NOT NULL
);

CREATE INDEX rota_event_expiry ON rota_event (expires_at);

-- Steps that wait for an event, until it is emitted or `due_at` has come.
CREATE TABLE rota_waiter (
    job_id bigint           NOT NULL,
    key    text COLLATE "C" NOT NULL,
    event  text COLLATE "C" NOT NULL,
    due_at bigint,
    PRIMARY KEY (job_id, key)
);

CREATE INDEX rota_waiter_event ON rota_waiter (event);
CREATE INDEX rota_waiter_due ON rota_waiter (due_at) WHERE due_at IS NOT NULL;

-- Recurring rules. `app` is the app whose code defines the schedule; NULL if it was created by hand.
CREATE TABLE rota_schedule (
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

CREATE INDEX rota_schedule_due ON rota_schedule (next_fire_at, id) WHERE paused_at IS NULL AND next_fire_at IS NOT NULL;

-- The fate of each fire time of a schedule.
CREATE TABLE rota_occurrence (
    schedule_id bigint NOT NULL,
    fire_time   bigint NOT NULL,
    fate        text   NOT NULL,
    job_id      bigint,
    at          bigint NOT NULL,
    PRIMARY KEY (schedule_id, fire_time)
);

CREATE INDEX rota_occurrence_at ON rota_occurrence (at);

-- Settings of queues.
CREATE TABLE rota_queue (
    name         text COLLATE "C" PRIMARY KEY,
    paused_at    bigint,
    pause_reason text,
    resume_at    bigint,
    max_depth    bigint,
    max_running  bigint,
    rate_limit   text,
    version      bigint           NOT NULL
);

-- How many jobs of a queue, task or key may run at once, and how often they may start. A claim that meets limits locks
-- their rows; the row `key:`, made by the first claim that needs it, stands for all keys.
CREATE TABLE rota_limit (
    name                text COLLATE "C" PRIMARY KEY,
    max_running         bigint,
    rate_limit          text,
    per_key_max_running bigint,
    per_key_rate_limit  text,
    weight              bigint,
    ordering            text,
    on_full             text,
    closed_until        bigint,
    reason              text,
    app                 text,
    set_by              text             NOT NULL,
    set_at              bigint           NOT NULL,
    breaker             text
);

-- The theoretical arrival times of the rates of a limit: when the next start would be due at an even pace.
CREATE TABLE rota_rate (
    name           text COLLATE "C" PRIMARY KEY,
    first_arrival  bigint           NOT NULL,
    second_arrival bigint           NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Circuit breakers: the rule, the tasks that wait for it, and the state.
CREATE TABLE rota_breaker (
    name       text COLLATE "C" PRIMARY KEY,
    failures   double precision NOT NULL,
    counted    bigint           NOT NULL,
    least      bigint           NOT NULL,
    open_for   bigint           NOT NULL,
    probes     bigint           NOT NULL,
    tasks      text             NOT NULL,
    is_open    boolean          NOT NULL,
    is_forced  boolean          NOT NULL,
    since      bigint,
    open_until bigint,
    reason     text,
    set_by     text             NOT NULL,
    opened     bigint           NOT NULL,
    version    bigint           NOT NULL
);

-- Calls of dependencies, and starts of tasks with a retry budget, by parts of a window and by process.
CREATE TABLE rota_call_count (
    name     text COLLATE "C" NOT NULL,
    slot     bigint           NOT NULL,
    source   text COLLATE "C" NOT NULL,
    calls    bigint           NOT NULL,
    failures bigint           NOT NULL,
    PRIMARY KEY (name, slot, source)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Processes of the cluster, as of their last heartbeat.
CREATE TABLE rota_member (
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
    seen_at     bigint           NOT NULL,
    facts       text,
    orders      text
);

-- The current leader.
CREATE TABLE rota_leader (
    name   text COLLATE "C" PRIMARY KEY,
    holder text             NOT NULL,
    term   bigint           NOT NULL,
    until  bigint           NOT NULL
);

-- Named advisory locks that are held. The row with the empty name is no lock: its fence is the last one given.
CREATE TABLE rota_lock (
    name   text COLLATE "C" PRIMARY KEY,
    holder text             NOT NULL,
    fence  bigint           NOT NULL,
    since  bigint           NOT NULL,
    until  bigint           NOT NULL
);

-- Shared configuration that all processes follow. A removed key stays without a value, so that the sum of the versions
-- grows with every change.
CREATE TABLE rota_configuration (
    key     text COLLATE "C" PRIMARY KEY,
    value   text,
    version bigint           NOT NULL
);

-- Audit log of operators' actions; each entry's digest covers all before it.
CREATE TABLE rota_ledger (
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
CREATE TABLE rota_token (
    id           text COLLATE "C" PRIMARY KEY,
    name         text             NOT NULL,
    digest       bytea            NOT NULL,
    role         text             NOT NULL,
    actions      text             NOT NULL,
    queues       text             NOT NULL,
    limits       text             NOT NULL,
    created_at   bigint           NOT NULL,
    expires_at   bigint,
    revoked_at   bigint
);

-- How many jobs retention has deleted, by final state.
CREATE TABLE rota_pruned (
    state text   PRIMARY KEY,
    count bigint NOT NULL
);

-- Actions on all jobs of a selection, done in batches. `due_at` is when a scheduler may do the next batch; NULL when it
-- has ended. `body` is all else, as JSON.
CREATE TABLE rota_operation (
    id      bigint PRIMARY KEY,
    due_at  bigint,
    version bigint NOT NULL,
    body    text   NOT NULL
);

CREATE INDEX rota_operation_due ON rota_operation (due_at) WHERE due_at IS NOT NULL;

-- Webhooks: addresses that are told of events. `body` is all but id and version, as JSON, with the secret that signs.
CREATE TABLE rota_webhook (
    id      text   PRIMARY KEY,
    version bigint NOT NULL,
    body    text   NOT NULL
);

-- Namespaces: the other stores of this deployment; only in the default one. `body` is all but name and version, as JSON.
CREATE TABLE rota_namespace (
    name    text   PRIMARY KEY,
    version bigint NOT NULL,
    body    text   NOT NULL
);

-- An operator's note on dead jobs of one type and cause; the fingerprint is empty where there was no error.
CREATE TABLE rota_dead_note (
    type        text   NOT NULL,
    fingerprint text   NOT NULL,
    text        text   NOT NULL,
    set_by      text   NOT NULL,
    set_at      bigint NOT NULL,
    PRIMARY KEY (type, fingerprint)
);

-- A saved view of the list of jobs; the owner is empty where everybody sees it.
CREATE TABLE rota_saved_view (
    owner    text   NOT NULL,
    name     text   NOT NULL,
    query    text   NOT NULL,
    saved_by text   NOT NULL,
    saved_at bigint NOT NULL,
    PRIMARY KEY (owner, name)
);

-- History: counts of jobs (JSON) in buckets of `step` seconds, by lane. The lane of empty names is the total.
CREATE TABLE rota_history (
    step  integer          NOT NULL,
    at    bigint           NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type  text COLLATE "C" NOT NULL,
    tally text             NOT NULL,
    PRIMARY KEY (step, at, queue, type)
);

-- The totals, for charts of all jobs.
CREATE INDEX rota_history_total ON rota_history (step, at) WHERE queue = '';

-- The number of the last counts that each process has added to the history, so that none are added twice. The row of
-- the empty name is locked by the process that adds.
CREATE TABLE rota_history_writer (
    writer text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    at     bigint NOT NULL
);

-- The JSON Schema of the payloads of each task type, as workers registered it, and when they last did.
CREATE TABLE rota_payload_schema (
    type text COLLATE "C" PRIMARY KEY,
    body text   NOT NULL,
    at   bigint NOT NULL
);
