CREATE TABLE migration (
    number     integer PRIMARY KEY,
    name       text    NOT NULL,
    digest     text    NOT NULL,
    applied_at bigint  NOT NULL
);
