-- The database as all migrations together leave it; a test compares the two.
--
-- A submission becomes a row of `job`, and that row is all that a job which succeeds at once ever costs. It waits in
-- `blocked` (with rows of `dependency` for what it waits for), `scheduled`, `retrying` or `pending`; only pending rows
-- stand in the claim index, so what is not due costs a claim nothing. A claim makes it `running` under a new fence (and
-- is remembered in `claim` if it was named, so that it can be repeated); a settlement ends it or sends it back, and
-- leaves a row of `attempt` unless the attempt was a plain success. `idempotency` holds the submitters' keys, `tag` the
-- words jobs are found by, `step` the guarded effects. A `schedule` makes jobs, one for each fire time, recorded in
-- `occurrence`. `queue` has the settings of queues, `member` the processes that take part, `leader` which of them leads,
-- `ledger` what operators did, `token` who may. `pruned` counts what retention has deleted: nothing disappears.
--
-- Times and spans are whole microseconds, times since 1970 in UTC. Payloads, results and the like are JSON text.

-- Which migrations this database has seen.
CREATE TABLE migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- One submission of a task. `turn` is the moment it became due, moved ahead by its priority: lower goes first.
CREATE TABLE job (
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
    -- With OR, not IN: for a list SQLite builds a table at every row, which doubled the cost of an insert.
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

CREATE INDEX job_turn ON job (queue, type, turn) WHERE state = 'pending';
CREATE INDEX job_time ON job (run_at) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX job_lease ON job (lease_until) WHERE state = 'running';
CREATE INDEX job_finished ON job (state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX job_expiry ON job (expires_at) WHERE expires_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX job_held ON job (state, queue, type) WHERE state IN ('blocked', 'queued');
CREATE INDEX job_later ON job (state, queue, type) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX job_dead ON job (fingerprint, id) WHERE state = 'dead';
CREATE INDEX job_lane ON job (queue, type);
CREATE INDEX job_waiting ON job (state)
WHERE (state = 'pending' OR state = 'scheduled' OR state = 'retrying' OR state = 'blocked' OR state = 'queued');
CREATE INDEX job_schedule ON job (schedule_id, id) WHERE schedule_id IS NOT NULL;

-- The words a job is found by.
CREATE TABLE tag (
    tag    TEXT    NOT NULL,
    job_id INTEGER NOT NULL,
    PRIMARY KEY (tag, job_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tag_job ON tag (job_id);

-- One run of a job under one fence, if it was anything but a plain success.
CREATE TABLE attempt (
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

-- A job (`child`) waits for another (`parent`); `met` once that wait is over.
CREATE TABLE dependency (
    parent INTEGER NOT NULL,
    child  INTEGER NOT NULL,
    need   TEXT    NOT NULL,
    met    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependency_child ON dependency (child);

-- A submitter's key and the job it stands for; `request` is a hash of what was asked.
CREATE TABLE idempotency (
    scope      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    request    BLOB    NOT NULL,
    job_id     INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_job ON idempotency (job_id);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

-- What a named claim gave: pairs of job and fence.
CREATE TABLE claim (
    claim_id TEXT    PRIMARY KEY,
    at       INTEGER NOT NULL,
    leases   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX claim_at ON claim (at);

-- A guarded effect: begun, and, once it is known to have happened, ended.
CREATE TABLE step (
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
CREATE TABLE schedule (
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

CREATE INDEX schedule_due ON schedule (next_fire_at) WHERE paused_at IS NULL AND next_fire_at IS NOT NULL;

-- What became of one fire time of a schedule, once and for all.
CREATE TABLE occurrence (
    schedule_id INTEGER NOT NULL,
    fire_time   INTEGER NOT NULL,
    fate        TEXT    NOT NULL,
    job_id      INTEGER,
    at          INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, fire_time)
) STRICT, WITHOUT ROWID;

CREATE INDEX occurrence_at ON occurrence (at);

-- The settings of a queue.
CREATE TABLE queue (
    name         TEXT    PRIMARY KEY,
    paused_at    INTEGER,
    pause_reason TEXT,
    resume_at    INTEGER,
    max_depth    INTEGER,
    max_running  INTEGER,
    rate_limit   TEXT,
    version      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A process that takes part, as it last described itself.
CREATE TABLE member (
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

-- Who leads.
CREATE TABLE leader (
    name   TEXT    PRIMARY KEY,
    holder TEXT    NOT NULL,
    term   INTEGER NOT NULL,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What operators did; each entry's digest binds it to all before it.
CREATE TABLE ledger (
    number INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    action TEXT    NOT NULL,
    target TEXT    NOT NULL,
    origin TEXT    NOT NULL,
    detail TEXT    NOT NULL,
    digest TEXT    NOT NULL
) STRICT;

-- A key to the API, of which only a hash is kept.
CREATE TABLE token (
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

-- How many jobs retention has deleted, by the state they ended in.
CREATE TABLE pruned (
    state TEXT    PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
