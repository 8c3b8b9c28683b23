-- People whom issuers have identified, and who of them is blocked. Times are in microseconds, and zero
-- for none.

-- +goose Up
CREATE TABLE people (
    caller     TEXT PRIMARY KEY NOT NULL,
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    name       TEXT NOT NULL,
    email      TEXT NOT NULL,
    groups     TEXT NOT NULL, -- JSON
    first_seen INTEGER NOT NULL,
    seen       INTEGER NOT NULL,
    blocked    INTEGER NOT NULL,
    blocked_by TEXT NOT NULL,
    reason     TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX people_seen ON people (seen, caller);
CREATE INDEX people_blocked ON people (caller) WHERE blocked <> 0;

-- +goose Down
DROP TABLE people;
