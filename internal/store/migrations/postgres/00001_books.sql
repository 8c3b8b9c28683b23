-- Amounts are billionths of a dollar. Names compare byte by byte, so that every replica
-- locks rows in the same order. The tables that change all the time leave room on their
-- pages, so that a row is changed in place.

-- +goose Up
CREATE TABLE paces (
    key   text COLLATE "C" PRIMARY KEY,
    state text
) WITH (fillfactor = 50);

CREATE TABLE purses (
    id         text COLLATE "C" PRIMARY KEY,
    account    text COLLATE "C" NOT NULL,
    state      text NOT NULL CHECK (state IN ('open', 'closed', 'expired')),
    cap        bigint NOT NULL CHECK (cap >= 0),
    balance    bigint NOT NULL CHECK (balance >= 0),
    held       bigint NOT NULL CHECK (held >= 0),
    spent      bigint NOT NULL CHECK (spent >= 0),
    calls      bigint NOT NULL CHECK (calls >= 0),
    held_calls bigint NOT NULL CHECK (held_calls >= 0),
    max_calls  bigint NOT NULL CHECK (max_calls >= 0),
    expires    timestamptz
) WITH (fillfactor = 50);
CREATE INDEX purses_expires ON purses (expires) WHERE state = 'open';
CREATE INDEX purses_left ON purses (id) WHERE state <> 'open' AND balance > 0;
CREATE INDEX purses_account ON purses (account);

CREATE TABLE holds (
    id            text COLLATE "C" PRIMARY KEY,
    purse         text COLLATE "C" NOT NULL REFERENCES purses (id),
    replica       text NOT NULL,
    serial        bigint NOT NULL,
    unspent       bigint NOT NULL CHECK (unspent >= 0),
    spent         bigint NOT NULL CHECK (spent >= 0),
    calls_unspent bigint NOT NULL CHECK (calls_unspent >= 0),
    calls_spent   bigint NOT NULL CHECK (calls_spent >= 0),
    expires       timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX holds_purse ON holds (purse);
CREATE INDEX holds_expires ON holds (expires);

CREATE TABLE runs (
    scope   text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    digest  bytea NOT NULL CHECK (length(digest) = 32),
    call    text NOT NULL,
    state   text NOT NULL CHECK (state IN ('running', 'done', 'unknown')),
    until   timestamptz NOT NULL,
    outcome bytea,
    PRIMARY KEY (scope, key)
);
CREATE INDEX runs_until ON runs (until);

CREATE TABLE transfers (
    id     text COLLATE "C" PRIMARY KEY,
    source text NOT NULL,
    target text NOT NULL,
    amount bigint NOT NULL CHECK (amount >= 0),
    kind   text NOT NULL,
    purse  text NOT NULL,
    at     timestamptz NOT NULL,
    CHECK (source <> target)
);
CREATE INDEX transfers_charges ON transfers (purse, at) WHERE kind = 'charge';

-- The days of the record are partitions of their own (see maintain), so that old ones are
-- dropped at once. What belongs to no day that is there goes to calls_default.
CREATE TABLE calls (
    id           text COLLATE "C" NOT NULL,
    at           timestamptz NOT NULL,
    elapsed_ns   bigint NOT NULL,
    gate         text NOT NULL,
    mode         text NOT NULL,
    caller       text NOT NULL,
    account      text NOT NULL,
    session      text NOT NULL,
    server       text NOT NULL,
    tool         text NOT NULL,
    generation   bigint NOT NULL,
    code         text NOT NULL,
    price        bigint NOT NULL,
    args_bytes   bigint NOT NULL,
    result_bytes bigint NOT NULL,
    args         text,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX calls_at ON calls (at);
CREATE TABLE calls_default PARTITION OF calls DEFAULT;

-- What calls cost that are no longer on the record, by who paid.
CREATE TABLE retired (
    purse  text PRIMARY KEY,
    amount bigint NOT NULL
);

-- +goose Down
DROP TABLE retired, calls, transfers, runs, holds, purses, paces;
