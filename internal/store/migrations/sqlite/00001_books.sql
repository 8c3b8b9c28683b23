-- Amounts are billionths of a dollar. A TIMESTAMP is an integer, in microseconds; the driver
-- converts it.

-- +goose Up
CREATE TABLE paces (
    key   TEXT PRIMARY KEY NOT NULL,
    state TEXT
) WITHOUT ROWID;

CREATE TABLE purses (
    id         TEXT PRIMARY KEY NOT NULL,
    account    TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('open', 'closed', 'expired')),
    cap        INTEGER NOT NULL CHECK (cap >= 0),
    balance    INTEGER NOT NULL CHECK (balance >= 0),
    held       INTEGER NOT NULL CHECK (held >= 0),
    spent      INTEGER NOT NULL CHECK (spent >= 0),
    calls      INTEGER NOT NULL CHECK (calls >= 0),
    held_calls INTEGER NOT NULL CHECK (held_calls >= 0),
    max_calls  INTEGER NOT NULL CHECK (max_calls >= 0),
    expires    TIMESTAMP
) WITHOUT ROWID;
CREATE INDEX purses_expires ON purses (expires) WHERE state = 'open';
CREATE INDEX purses_left ON purses (id) WHERE state <> 'open' AND balance > 0;
CREATE INDEX purses_account ON purses (account);

CREATE TABLE holds (
    id            TEXT PRIMARY KEY NOT NULL,
    purse         TEXT NOT NULL REFERENCES purses (id),
    replica       TEXT NOT NULL,
    serial        INTEGER NOT NULL,
    unspent       INTEGER NOT NULL CHECK (unspent >= 0),
    spent         INTEGER NOT NULL CHECK (spent >= 0),
    calls_unspent INTEGER NOT NULL CHECK (calls_unspent >= 0),
    calls_spent   INTEGER NOT NULL CHECK (calls_spent >= 0),
    expires       TIMESTAMP NOT NULL
) WITHOUT ROWID;
CREATE INDEX holds_purse ON holds (purse, expires);
CREATE INDEX holds_expires ON holds (expires);

CREATE TABLE runs (
    scope   TEXT NOT NULL,
    key     TEXT NOT NULL,
    digest  BLOB NOT NULL CHECK (length(digest) = 32),
    call    TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('running', 'done', 'unknown')),
    until   TIMESTAMP NOT NULL,
    outcome BLOB,
    PRIMARY KEY (scope, key)
);
CREATE INDEX runs_until ON runs (until);

CREATE TABLE transfers (
    id     TEXT PRIMARY KEY NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount >= 0),
    kind   TEXT NOT NULL,
    purse  TEXT NOT NULL,
    at     TIMESTAMP NOT NULL,
    CHECK (source <> target)
) WITHOUT ROWID;
CREATE INDEX transfers_charges ON transfers (purse, at) WHERE kind = 'charge';

-- Every index of this table is paid for by every call, so it has none: it is in the order of
-- time, and who looks for something else looks through a span of time.
CREATE TABLE calls (
    id           TEXT NOT NULL,
    at           TIMESTAMP NOT NULL,
    elapsed_ns   INTEGER NOT NULL,
    gate         TEXT NOT NULL,
    mode         TEXT NOT NULL,
    caller       TEXT NOT NULL,
    account      TEXT NOT NULL,
    session      TEXT NOT NULL,
    server       TEXT NOT NULL,
    tool         TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    code         TEXT NOT NULL,
    price        INTEGER NOT NULL,
    args_bytes   INTEGER NOT NULL,
    result_bytes INTEGER NOT NULL,
    args         TEXT,
    PRIMARY KEY (at, id)
) WITHOUT ROWID;

-- What calls cost that are no longer on the record, by who paid.
CREATE TABLE retired (
    purse  TEXT PRIMARY KEY NOT NULL,
    amount INTEGER NOT NULL
);

-- +goose Down
DROP TABLE retired;
DROP TABLE calls;
DROP TABLE transfers;
DROP TABLE runs;
DROP TABLE holds;
DROP TABLE purses;
DROP TABLE paces;
