-- What people ask of the record and of the books, and what they change.

-- +goose Up
ALTER TABLE calls ADD COLUMN parent TEXT;
ALTER TABLE calls ADD COLUMN message TEXT;
ALTER TABLE calls ADD COLUMN marks TEXT;
-- Ids sort by time, so this index grows at its end, which costs little; the others have few
-- rows.
CREATE INDEX calls_id ON calls (id);
CREATE INDEX calls_failed ON calls (at, id) WHERE code <> 'OK';
CREATE INDEX calls_parent ON calls (parent, at, id) WHERE parent IS NOT NULL;

-- There is one writer at a time, so the shard is always zero.
CREATE TABLE sums (
    account    TEXT NOT NULL,
    hour       TIMESTAMP NOT NULL,
    server     TEXT NOT NULL,
    tool       TEXT NOT NULL,
    shard      INTEGER NOT NULL,
    calls      INTEGER NOT NULL,
    errors     INTEGER NOT NULL,
    charged    INTEGER NOT NULL,
    usd        INTEGER NOT NULL,
    PRIMARY KEY (account, hour, server, tool, shard)
) WITHOUT ROWID;
CREATE INDEX sums_hour ON sums (hour);
INSERT INTO sums
    SELECT account, at / 3600000000 * 3600000000, server, tool, 0,
        count(*), count(*) FILTER (WHERE code <> 'OK'), count(*) FILTER (WHERE price > 0), sum(price)
    FROM calls GROUP BY 1, 2, 3, 4;

-- Sums move here from time to time (see gather), added up in nine ways: by account, by tool, or
-- by both, each by the hour, the day and the week. What a grain does not tell apart is empty.
CREATE TABLE totals (
    grain      TEXT NOT NULL,
    account    TEXT NOT NULL,
    at         TIMESTAMP NOT NULL,
    server     TEXT NOT NULL,
    tool       TEXT NOT NULL,
    calls      INTEGER NOT NULL,
    errors     INTEGER NOT NULL,
    charged    INTEGER NOT NULL,
    usd        INTEGER NOT NULL,
    PRIMARY KEY (grain, account, at, server, tool)
) WITHOUT ROWID;
CREATE INDEX totals_at ON totals (grain, at);

CREATE TABLE minutes (
    minute TIMESTAMP NOT NULL,
    shard  INTEGER NOT NULL,
    calls  INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    usd    INTEGER NOT NULL,
    PRIMARY KEY (minute, shard)
) WITHOUT ROWID;
INSERT INTO minutes
    SELECT at / 60000000 * 60000000, 0, count(*), count(*) FILTER (WHERE code <> 'OK'), sum(price)
    FROM calls WHERE at >= (unixepoch() - 8 * 86400) * 1000000 GROUP BY 1;

CREATE INDEX purses_accounts ON purses (id) WHERE id = account;
CREATE INDEX sessions_newest ON purses (expires, id) WHERE id <> account;
CREATE INDEX sessions_account ON purses (account, expires, id) WHERE id <> account;
CREATE INDEX sessions_state ON purses (state, expires, id) WHERE id <> account;

CREATE INDEX keys_newest ON keys (created, prefix);
CREATE INDEX keys_account ON keys (account, created, prefix);
CREATE INDEX keys_caller ON keys (caller, created, prefix);

-- Versions of documents, with who wrote them.
CREATE TABLE versions (
    name    TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    at      TIMESTAMP NOT NULL,
    author  TEXT NOT NULL,
    note    TEXT NOT NULL,
    body    BLOB NOT NULL,
    PRIMARY KEY (name, version)
);

-- What people changed, and how that was answered: a status of HTTP, zero while it runs.
CREATE TABLE changes (
    id      TEXT PRIMARY KEY NOT NULL,
    at      TIMESTAMP NOT NULL,
    caller  TEXT NOT NULL,
    account TEXT NOT NULL,
    deed    TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT,
    status  INTEGER NOT NULL,
    remote  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX changes_at ON changes (at, id);

-- +goose Down
DROP TABLE changes;
DROP TABLE versions;
DROP INDEX keys_caller;
DROP INDEX keys_account;
DROP INDEX keys_newest;
DROP INDEX sessions_state;
DROP INDEX sessions_account;
DROP INDEX sessions_newest;
DROP INDEX purses_accounts;
DROP TABLE minutes;
DROP TABLE totals;
DROP TABLE sums;
DROP INDEX calls_parent;
DROP INDEX calls_failed;
DROP INDEX calls_id;
ALTER TABLE calls DROP COLUMN marks;
ALTER TABLE calls DROP COLUMN message;
ALTER TABLE calls DROP COLUMN parent;
