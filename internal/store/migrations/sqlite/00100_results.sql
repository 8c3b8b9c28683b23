-- Long results, which their callers read in pieces.

-- +goose Up
CREATE TABLE results (
    id      TEXT PRIMARY KEY NOT NULL,
    account TEXT NOT NULL,
    caller  TEXT NOT NULL,
    created TIMESTAMP NOT NULL,
    expires TIMESTAMP NOT NULL,
    size    INTEGER NOT NULL,
    body    BLOB NOT NULL
);
CREATE INDEX results_owner ON results (account, caller, created);
CREATE INDEX results_expires ON results (expires);

-- +goose Down
DROP TABLE results;
