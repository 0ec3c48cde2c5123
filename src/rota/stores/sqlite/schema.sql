-- The database as all migrations together leave it; a test compares the two. All tables and indexes begin with `rota_`,
-- so that a store can share a file with an application's own tables.
--
-- A submission becomes a row of `rota_job`; a job that succeeds at once has no other row. It waits as `blocked` (with
-- rows of `rota_dependency`), `scheduled`, `retrying` or `pending`. Only pending rows are in the claim indexes
-- `rota_job_turn` and, for jobs with a concurrency key, `rota_job_key`, so jobs that are not due cost a claim nothing. A
-- claim makes the job `running` under a new fence; `rota_limit` and `rota_rate` bound how many and how often. A claim
-- with an id is recorded in `rota_claim`, so that it can be repeated. A settlement finishes the job or makes it
-- wait again, and adds a row of `rota_attempt` unless the attempt was a plain success. `rota_idempotency` holds the
-- submitters' keys, `rota_tag` the tags, `rota_step` the guarded side effects. A `rota_schedule` makes one job for each
-- fire time, recorded in `rota_occurrence`. `rota_queue` holds the settings of queues, `rota_member` the processes of
-- the cluster, `rota_leader` leadership, `rota_ledger` the audit log, `rota_token` API tokens, `rota_pruned` the number
-- of jobs deleted by retention. `rota_migration` lists the applied migrations.
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
CREATE INDEX rota_job_time ON rota_job (run_at) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX rota_job_lease ON rota_job (lease_until) WHERE state = 'running';
CREATE INDEX rota_job_finished ON rota_job (state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX rota_job_expiry ON rota_job (expires_at) WHERE expires_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX rota_job_held ON rota_job (state, queue, type) WHERE state IN ('blocked', 'queued');
CREATE INDEX rota_job_later ON rota_job (state, queue, type) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX rota_job_dead ON rota_job (fingerprint, id) WHERE state = 'dead';
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

-- A job (`child`) waits for another (`parent`) until `met` is 1.
CREATE TABLE rota_dependency (
    parent INTEGER NOT NULL,
    child  INTEGER NOT NULL,
    need   TEXT    NOT NULL,
    met    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;

CREATE INDEX rota_dependency_child ON rota_dependency (child);

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
    PRIMARY KEY (job_id, key),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;

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
    closed_until        INTEGER,
    reason              TEXT,
    app                 TEXT,
    set_by              TEXT    NOT NULL,
    set_at              INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The theoretical arrival times of the rates of a limit: when the next start would be due at an even pace.
CREATE TABLE rota_rate (
    name           TEXT    PRIMARY KEY,
    first_arrival  INTEGER NOT NULL,
    second_arrival INTEGER NOT NULL
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
    seen_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Leadership: which process holds it, until when.
CREATE TABLE rota_leader (
    name   TEXT    PRIMARY KEY,
    holder TEXT    NOT NULL,
    term   INTEGER NOT NULL,
    until  INTEGER NOT NULL
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
    digest TEXT    NOT NULL
) STRICT;

-- An API token, of which only a hash is stored.
CREATE TABLE rota_token (
    id           TEXT    PRIMARY KEY,
    name         TEXT    NOT NULL,
    digest       BLOB    NOT NULL,
    scopes       TEXT    NOT NULL,
    queues       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;

-- How many jobs retention has deleted, by final state.
CREATE TABLE rota_pruned (
    state TEXT    PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
