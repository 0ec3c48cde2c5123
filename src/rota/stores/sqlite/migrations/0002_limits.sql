-- Limits. Jobs with a concurrency key leave the index of ordinary claims: they are claimed by key.
DROP INDEX rota_job_turn;
CREATE INDEX rota_job_turn ON rota_job (queue, type, turn) WHERE state = 'pending' AND concurrency_key IS NULL;
CREATE INDEX rota_job_key ON rota_job (queue, type, concurrency_key, turn)
WHERE state = 'pending' AND concurrency_key IS NOT NULL;

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
