-- A worker that has found nothing leaves its claim here, and whoever brings a job may answer it with that.
-- Not logged: after a crash of the server nobody waits any more.
CREATE UNLOGGED TABLE open_claim (
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

CREATE INDEX open_claim_since ON open_claim (since);
