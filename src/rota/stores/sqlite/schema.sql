-- The database as all migrations together leave it; a test compares the two. All tables and indexes begin with `rota_`,
-- so that a store can share a file with an application's own tables.
--
-- A submission becomes a row of `rota_job`; a job that succeeds at once has no other row. It waits as `blocked` (with
-- rows of `rota_dependency`), `scheduled`, `retrying` or `pending`. Only pending rows are in the claim indexes
-- `rota_job_turn` and, for jobs with a concurrency key, `rota_job_key`, so jobs that are not due cost a claim nothing. A
-- claim makes the job `running` under a new fence; `rota_limit` and `rota_rate` bound how many and how often. A claim
-- with an id is recorded in `rota_claim`, so that it can be repeated. A settlement finishes the job or makes it
-- wait again, and adds a row of `rota_attempt` unless the attempt was a plain success. `rota_idempotency` holds the
-- submitters' keys, `rota_tag` the tags, `rota_step` the guarded side effects and waits, `rota_event` the events that jobs
-- wait for, `rota_waiter` the steps that wait for them. A `rota_schedule` makes one job for each fire time, recorded in
-- `rota_occurrence`. `rota_queue` holds the settings of queues, `rota_member` the processes of
-- the cluster, `rota_leader` leadership, `rota_lock` named locks, `rota_configuration` the shared configuration,
-- `rota_ledger` the audit log, `rota_token` API tokens, `rota_webhook` webhooks, `rota_namespace` the other stores of this
-- deployment, `rota_pruned` the number of jobs deleted by retention, `rota_operation` actions on all jobs of a selection.
-- `rota_dead_note` holds operators' notes on dead jobs of one cause, `rota_saved_view` views of the list of jobs.
-- `rota_breaker` holds circuit breakers, `rota_call_count` the calls that they count.
-- `rota_history` holds the counts of jobs by minute and hour, `rota_history_writer` which counts were added already,
-- `rota_payload_schema` what payloads of a type look like.
-- `rota_workflow` holds workflows, `rota_workflow_node` which job belongs to which. `rota_migration` lists the applied
-- migrations.
--
-- Times and durations are whole microseconds, times since 1970 in UTC. Payloads, results and the like are JSON text.

-- The migrations applied to this database.
CREATE TABLE rota_migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- One job. `turn` orders claims: the time the job became due, minus a span for its priority; lower goes first.
CREATE TABLE rota_job (
    id                  INTEGER PRIMARY KEY,
    type                TEXT    NOT NULL,
    queue               TEXT    NOT NULL,
    priority            INTEGER NOT NULL,
    state               TEXT    NOT NULL,
    turn                INTEGER NOT NULL,
    run_at              INTEGER NOT NULL,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    fence               INTEGER NOT NULL DEFAULT 0,
    attempts            INTEGER NOT NULL DEFAULT 0,
    crashes             INTEGER NOT NULL DEFAULT 0,
    max_attempts        INTEGER NOT NULL,
    worker              TEXT,
    boot                TEXT,
    lease_until         INTEGER,
    started_at          INTEGER,
    finished_at         INTEGER,
    cancel_requested_at INTEGER,
    expires_at          INTEGER,
    timeout             INTEGER,
    delivery            TEXT    NOT NULL,
    backoff             TEXT,
    payload             TEXT    NOT NULL,
    result              TEXT,
    error               TEXT,
    reason              TEXT,
    fingerprint         TEXT,
    idempotency_key     TEXT,
    concurrency_key     TEXT,
    tags                TEXT,
    meta                TEXT,
    blockers            INTEGER NOT NULL DEFAULT 0,
    on_success          TEXT,
    on_failure          TEXT,
    parent_id           INTEGER,
    schedule_id         INTEGER,
    fire_time           INTEGER,
    -- OR instead of IN: for a list SQLite builds a temporary table at every row, which doubled the cost of an insert.
    CHECK (
        state = 'pending' OR state = 'running' OR state = 'completed' OR state = 'scheduled' OR state = 'retrying'
        OR state = 'blocked' OR state = 'queued' OR state = 'dead' OR state = 'cancelled'
    ),
    CHECK ((finished_at IS NOT NULL) = (state = 'completed' OR state = 'dead' OR state = 'cancelled')),
    CHECK ((lease_until IS NOT NULL) = (state = 'running')),
    CHECK (state <> 'blocked' OR blockers > 0),
    CHECK (attempts BETWEEN 0 AND max_attempts),
    CHECK (attempts <= fence)
) STRICT;

CREATE INDEX rota_job_turn ON rota_job (queue, type, turn) WHERE state = 'pending' AND concurrency_key IS NULL;
CREATE INDEX rota_job_key ON rota_job (queue, type, concurrency_key, turn)
WHERE state = 'pending' AND concurrency_key IS NOT NULL;
CREATE INDEX rota_job_sequence ON rota_job (concurrency_key, id)
WHERE concurrency_key IS NOT NULL AND finished_at IS NULL;
CREATE INDEX rota_job_time ON rota_job (run_at) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX rota_job_lease ON rota_job (lease_until) WHERE state = 'running';
CREATE INDEX rota_job_finished ON rota_job (state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX rota_job_expiry ON rota_job (expires_at) WHERE expires_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX rota_job_held ON rota_job (state, queue, type) WHERE state IN ('blocked', 'queued');
CREATE INDEX rota_job_later ON rota_job (state, queue, type) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX rota_job_dead ON rota_job (fingerprint, id) WHERE state = 'dead';
-- The state is among the columns, or SQLite reads the row of each job to see it.
CREATE INDEX rota_job_cause ON rota_job (fingerprint, type, finished_at, state) WHERE state = 'dead';
CREATE INDEX rota_job_lane ON rota_job (queue, type);
CREATE INDEX rota_job_waiting ON rota_job (state)
WHERE (state = 'pending' OR state = 'scheduled' OR state = 'retrying' OR state = 'blocked' OR state = 'queued');
CREATE INDEX rota_job_schedule ON rota_job (schedule_id, id) WHERE schedule_id IS NOT NULL;

-- The tags by which jobs are found.
CREATE TABLE rota_tag (
    tag    TEXT    NOT NULL,
    job_id INTEGER NOT NULL,
    PRIMARY KEY (tag, job_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX rota_tag_job ON rota_tag (job_id);

-- One attempt of a job under one fence, unless it was a plain success.
CREATE TABLE rota_attempt (
    job_id     INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    boot       TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    event      TEXT,
    error      TEXT,
    progress   TEXT,
    log_tail   TEXT,
    PRIMARY KEY (job_id, fence)
) STRICT, WITHOUT ROWID;

-- A job (`child`) waits for another (`parent`) until `met` is 1. `position` orders the parents of a child.
CREATE TABLE rota_dependency (
    parent   INTEGER NOT NULL,
    child    INTEGER NOT NULL,
    need     TEXT    NOT NULL,
    met      INTEGER NOT NULL DEFAULT 0,
    position INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;

CREATE INDEX rota_dependency_child ON rota_dependency (child);

-- A workflow: jobs with dependencies, submitted, shown and acted on as one.
CREATE TABLE rota_workflow (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    policy     TEXT    NOT NULL,
    nodes      INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- A node of a workflow and its job. `parents` are its dependencies, as JSON. A node that ran again has one row for each
-- job, and `replaced_by` in all but the last. `state` and `reason` are those of a job that retention has deleted.
CREATE TABLE rota_workflow_node (
    workflow_id        INTEGER NOT NULL,
    position           INTEGER NOT NULL,
    job_id             INTEGER NOT NULL,
    name               TEXT    NOT NULL,
    parents            TEXT    NOT NULL,
    runs_after_failure INTEGER NOT NULL,
    replaced_by        INTEGER,
    is_skipped         INTEGER NOT NULL DEFAULT 0,
    state              TEXT,
    reason             TEXT,
    PRIMARY KEY (workflow_id, position, job_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX rota_workflow_node_job ON rota_workflow_node (job_id);

-- A submitter's idempotency key and its job; `request` is a hash of the submission.
CREATE TABLE rota_idempotency (
    scope      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    request    BLOB    NOT NULL,
    job_id     INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX rota_idempotency_job ON rota_idempotency (job_id);
CREATE INDEX rota_idempotency_expiry ON rota_idempotency (expires_at);

-- The answer of a claim with an id, so that it can be repeated: pairs of job and fence.
CREATE TABLE rota_claim (
    claim_id TEXT    PRIMARY KEY,
    at       INTEGER NOT NULL,
    leases   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX rota_claim_at ON rota_claim (at);

-- A side effect guarded by (job, key): begun, and ended once its outcome is known.
CREATE TABLE rota_step (
    job_id      INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    number      INTEGER NOT NULL,
    began_under INTEGER NOT NULL,
    began_at    INTEGER NOT NULL,
    ended_at    INTEGER,
    outcome     TEXT,
    kind        TEXT    NOT NULL DEFAULT 'effect',
    until       INTEGER,
    subject     TEXT,
    PRIMARY KEY (job_id, key),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;

-- An event that jobs wait for; `at` is NULL until it is emitted. The row of an event that was not emitted is a lock for
-- those who begin to wait for it, and may be deleted at any time.
CREATE TABLE rota_event (
    name       TEXT    PRIMARY KEY,
    payload    TEXT,
    at         INTEGER,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX rota_event_expiry ON rota_event (expires_at);

-- A step that waits for an event, until it is emitted or `due_at` has come.
CREATE TABLE rota_waiter (
    job_id INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    event  TEXT    NOT NULL,
    due_at INTEGER,
    PRIMARY KEY (job_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX rota_waiter_event ON rota_waiter (event);
CREATE INDEX rota_waiter_due ON rota_waiter (due_at) WHERE due_at IS NOT NULL;

-- A recurring rule.
CREATE TABLE rota_schedule (
    id             INTEGER PRIMARY KEY,
    name           TEXT    NOT NULL UNIQUE,
    rule           TEXT    NOT NULL,
    zone           TEXT    NOT NULL,
    template       TEXT    NOT NULL,
    catch_up       TEXT    NOT NULL,
    catch_up_limit INTEGER NOT NULL,
    grace          INTEGER NOT NULL,
    overlap        TEXT    NOT NULL,
    jitter         INTEGER NOT NULL,
    start_at       INTEGER,
    end_at         INTEGER,
    blackouts      TEXT,
    paused_at      INTEGER,
    pause_reason   TEXT,
    next_fire_at   INTEGER,
    last_fire_at   INTEGER,
    last_job_id    INTEGER,
    version        INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    app            TEXT
) STRICT;

CREATE INDEX rota_schedule_due ON rota_schedule (next_fire_at) WHERE paused_at IS NULL AND next_fire_at IS NOT NULL;

-- The fate of one fire time of a schedule.
CREATE TABLE rota_occurrence (
    schedule_id INTEGER NOT NULL,
    fire_time   INTEGER NOT NULL,
    fate        TEXT    NOT NULL,
    job_id      INTEGER,
    at          INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, fire_time)
) STRICT, WITHOUT ROWID;

CREATE INDEX rota_occurrence_at ON rota_occurrence (at);

-- The settings of a queue.
CREATE TABLE rota_queue (
    name         TEXT    PRIMARY KEY,
    paused_at    INTEGER,
    pause_reason TEXT,
    resume_at    INTEGER,
    max_depth    INTEGER,
    max_running  INTEGER,
    rate_limit   TEXT,
    version      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How many jobs of a queue, task or key may run at once, and how often they may start.
CREATE TABLE rota_limit (
    name                TEXT    PRIMARY KEY,
    max_running         INTEGER,
    rate_limit          TEXT,
    per_key_max_running INTEGER,
    per_key_rate_limit  TEXT,
    weight              INTEGER,
    ordering            TEXT,
    on_full             TEXT,
    closed_until        INTEGER,
    reason              TEXT,
    app                 TEXT,
    set_by              TEXT    NOT NULL,
    set_at              INTEGER NOT NULL,
    breaker             TEXT
) STRICT, WITHOUT ROWID;

-- The theoretical arrival times of the rates of a limit: when the next start would be due at an even pace.
CREATE TABLE rota_rate (
    name           TEXT    PRIMARY KEY,
    first_arrival  INTEGER NOT NULL,
    second_arrival INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Circuit breakers: the rule, the tasks that wait for it, and the state.
CREATE TABLE rota_breaker (
    name       TEXT    PRIMARY KEY,
    failures   REAL    NOT NULL,
    counted    INTEGER NOT NULL,
    least      INTEGER NOT NULL,
    open_for   INTEGER NOT NULL,
    probes     INTEGER NOT NULL,
    tasks      TEXT    NOT NULL,
    is_open    INTEGER NOT NULL,
    is_forced  INTEGER NOT NULL,
    since      INTEGER,
    open_until INTEGER,
    reason     TEXT,
    set_by     TEXT    NOT NULL,
    opened     INTEGER NOT NULL,
    version    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Calls of dependencies, and starts of tasks with a retry budget, by parts of a window and by process.
CREATE TABLE rota_call_count (
    name     TEXT    NOT NULL,
    slot     INTEGER NOT NULL,
    source   TEXT    NOT NULL,
    calls    INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    PRIMARY KEY (name, slot, source)
) STRICT, WITHOUT ROWID;

-- A process of the cluster, as of its last heartbeat.
CREATE TABLE rota_member (
    boot        TEXT    PRIMARY KEY,
    role        TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    host        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    version     TEXT    NOT NULL,
    address     TEXT    NOT NULL,
    queues      TEXT    NOT NULL,
    types       TEXT,
    slots       INTEGER NOT NULL,
    busy        INTEGER NOT NULL,
    is_draining INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    facts       TEXT,
    orders      TEXT
) STRICT, WITHOUT ROWID;

-- Leadership: which process holds it, until when.
CREATE TABLE rota_leader (
    name   TEXT    PRIMARY KEY,
    holder TEXT    NOT NULL,
    term   INTEGER NOT NULL,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Named advisory locks that are held. The row with the empty name is no lock: its fence is the last one given.
CREATE TABLE rota_lock (
    name   TEXT    PRIMARY KEY,
    holder TEXT    NOT NULL,
    fence  INTEGER NOT NULL,
    since  INTEGER NOT NULL,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Shared configuration that all processes follow. A removed key stays without a value, so that the sum of the versions
-- grows with every change.
CREATE TABLE rota_configuration (
    key     TEXT    PRIMARY KEY,
    value   TEXT,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The audit log: operators' actions. Each entry's digest includes that of the entry before it.
CREATE TABLE rota_ledger (
    number INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    action TEXT    NOT NULL,
    target TEXT    NOT NULL,
    origin TEXT    NOT NULL,
    detail TEXT    NOT NULL,
    digest TEXT    NOT NULL,
    surface TEXT   NOT NULL
) STRICT;

-- An API token, of which only a hash is stored.
CREATE TABLE rota_token (
    id           TEXT    PRIMARY KEY,
    name         TEXT    NOT NULL,
    digest       BLOB    NOT NULL,
    role         TEXT    NOT NULL,
    actions      TEXT    NOT NULL,
    queues       TEXT    NOT NULL,
    limits       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT, WITHOUT ROWID;

-- How many jobs retention has deleted, by final state.
CREATE TABLE rota_pruned (
    state TEXT    PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- An action on all jobs of a selection, done in batches. `due_at` is when a scheduler may do the next batch; NULL when it
-- has ended. `body` is all else, as JSON.
CREATE TABLE rota_operation (
    id      INTEGER PRIMARY KEY,
    due_at  INTEGER,
    version INTEGER NOT NULL,
    body    TEXT    NOT NULL
) STRICT;

CREATE INDEX rota_operation_due ON rota_operation (due_at) WHERE due_at IS NOT NULL;

-- Webhooks: addresses that are told of events. `body` is all but id and version, as JSON, with the secret that signs.
CREATE TABLE rota_webhook (
    id      TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    body    TEXT    NOT NULL
) STRICT;

-- Namespaces: the other stores of this deployment; only in the default one. `body` is all but name and version, as JSON.
CREATE TABLE rota_namespace (
    name    TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    body    TEXT    NOT NULL
) STRICT;

-- An operator's note on dead jobs of one type and cause; the fingerprint is empty where there was no error.
CREATE TABLE rota_dead_note (
    type        TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    text        TEXT    NOT NULL,
    set_by      TEXT    NOT NULL,
    set_at      INTEGER NOT NULL,
    PRIMARY KEY (type, fingerprint)
) STRICT, WITHOUT ROWID;

-- A saved view of the list of jobs; the owner is empty where everybody sees it.
CREATE TABLE rota_saved_view (
    owner    TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    query    TEXT    NOT NULL,
    saved_by TEXT    NOT NULL,
    saved_at INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;

-- History: counts of jobs (JSON) in buckets of `step` seconds, by lane. The lane of empty names is the total.
CREATE TABLE rota_history (
    step  INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    queue TEXT    NOT NULL,
    type  TEXT    NOT NULL,
    tally TEXT    NOT NULL,
    PRIMARY KEY (step, at, queue, type)
) STRICT, WITHOUT ROWID;

-- The totals, for charts of all jobs.
CREATE INDEX rota_history_total ON rota_history (step, at) WHERE queue = '';

-- The number of the last counts that each process has added to the history, so that none are added twice.
CREATE TABLE rota_history_writer (
    writer TEXT    PRIMARY KEY,
    number INTEGER NOT NULL,
    at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The JSON Schema of the payloads of each task type, as workers registered it, and when they last did.
CREATE TABLE rota_payload_schema (
    type TEXT    PRIMARY KEY,
    body TEXT    NOT NULL,
    at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
