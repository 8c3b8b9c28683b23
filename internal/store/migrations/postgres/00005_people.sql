-- What people ask of the record and of the books, and what they change.

-- +goose Up
-- was is what a call was counted as in the sums before it was found to be charged.
ALTER TABLE calls ADD COLUMN parent text, ADD COLUMN message text, ADD COLUMN marks text, ADD COLUMN was text;
CREATE INDEX calls_server ON calls (server, at);
CREATE INDEX calls_tool ON calls (tool, at);
CREATE INDEX calls_gate ON calls (gate, at);
CREATE INDEX calls_caller ON calls (caller, at);
CREATE INDEX calls_failed ON calls (at, id) WHERE code <> 'OK';
CREATE INDEX calls_code ON calls (code, at, id) WHERE code <> 'OK';
CREATE INDEX calls_parent ON calls (parent, at, id) WHERE parent IS NOT NULL;

-- Every replica adds to rows of its own shard, so that none waits for what another commits.
CREATE TABLE sums (
    account    text COLLATE "C" NOT NULL,
    hour       timestamptz NOT NULL,
    server     text COLLATE "C" NOT NULL,
    tool       text COLLATE "C" NOT NULL,
    shard      bigint NOT NULL,
    calls      bigint NOT NULL,
    errors     bigint NOT NULL,
    charged    bigint NOT NULL,
    usd        bigint NOT NULL,
    PRIMARY KEY (account, hour, server, tool, shard)
) WITH (fillfactor = 50);
CREATE INDEX sums_hour ON sums (hour);
INSERT INTO sums
    SELECT account, date_trunc('hour', at, 'UTC'), server, tool, 0,
        count(*), count(*) FILTER (WHERE code <> 'OK'), count(*) FILTER (WHERE price > 0), sum(price)
    FROM calls GROUP BY 1, 2, 3, 4;

-- Sums move here from time to time (see gather), added up in nine ways: by account, by tool, or
-- by both, each by the hour, the day and the week. What a grain does not tell apart is empty. Grains
-- are apart from each other, because some have few rows and some very many.
CREATE TABLE totals (
    grain      text COLLATE "C" NOT NULL,
    account    text COLLATE "C" NOT NULL,
    at         timestamptz NOT NULL,
    server     text COLLATE "C" NOT NULL,
    tool       text COLLATE "C" NOT NULL,
    calls      bigint NOT NULL,
    errors     bigint NOT NULL,
    charged    bigint NOT NULL,
    usd        bigint NOT NULL,
    PRIMARY KEY (grain, account, at, server, tool)
) PARTITION BY LIST (grain);
CREATE TABLE totals_account_hour PARTITION OF totals FOR VALUES IN ('account/hour');
CREATE TABLE totals_account_day PARTITION OF totals FOR VALUES IN ('account/day');
CREATE TABLE totals_account_week PARTITION OF totals FOR VALUES IN ('account/week');
CREATE TABLE totals_tool_hour PARTITION OF totals FOR VALUES IN ('tool/hour');
CREATE TABLE totals_tool_day PARTITION OF totals FOR VALUES IN ('tool/day');
CREATE TABLE totals_tool_week PARTITION OF totals FOR VALUES IN ('tool/week');
CREATE TABLE totals_both_hour PARTITION OF totals FOR VALUES IN ('both/hour');
CREATE TABLE totals_both_day PARTITION OF totals FOR VALUES IN ('both/day');
CREATE TABLE totals_both_week PARTITION OF totals FOR VALUES IN ('both/week');
CREATE INDEX totals_at ON totals (grain, at);

CREATE TABLE minutes (
    minute timestamptz NOT NULL,
    shard  bigint NOT NULL,
    calls  bigint NOT NULL,
    errors bigint NOT NULL,
    usd    bigint NOT NULL,
    PRIMARY KEY (minute, shard)
) WITH (fillfactor = 50);
INSERT INTO minutes
    SELECT date_trunc('minute', at, 'UTC'), 0, count(*), count(*) FILTER (WHERE code <> 'OK'), sum(price)
    FROM calls WHERE at >= now() - interval '8 days' GROUP BY 1;

CREATE INDEX purses_accounts ON purses (id) WHERE id = account;
CREATE INDEX sessions_newest ON purses (expires, id) WHERE id <> account;
CREATE INDEX sessions_account ON purses (account, expires, id) WHERE id <> account;
CREATE INDEX sessions_state ON purses (state, expires, id) WHERE id <> account;

CREATE INDEX keys_newest ON keys (created, prefix);
CREATE INDEX keys_account ON keys (account, created, prefix);
CREATE INDEX keys_caller ON keys (caller, created, prefix);

-- Versions of documents, with who wrote them.
CREATE TABLE versions (
    name    text COLLATE "C" NOT NULL,
    version bigint NOT NULL CHECK (version > 0),
    at      timestamptz NOT NULL,
    author  text NOT NULL,
    note    text NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (name, version)
);

-- What people changed, and how that was answered: a status of HTTP, zero while it runs.
CREATE TABLE changes (
    id      text COLLATE "C" PRIMARY KEY,
    at      timestamptz NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    deed    text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    detail  text,
    status  bigint NOT NULL,
    remote  text NOT NULL
);
CREATE INDEX changes_at ON changes (at, id);
CREATE INDEX changes_caller ON changes (caller, at, id);
CREATE INDEX changes_deed ON changes (deed, at, id);
CREATE INDEX changes_subject ON changes (subject, at, id);

-- +goose Down
DROP TABLE changes, versions, minutes, totals, sums;
DROP INDEX keys_caller, keys_account, keys_newest;
DROP INDEX sessions_state, sessions_account, sessions_newest, purses_accounts;
DROP INDEX calls_parent, calls_code, calls_failed, calls_caller, calls_gate, calls_tool, calls_server;
ALTER TABLE calls DROP COLUMN was, DROP COLUMN marks, DROP COLUMN message, DROP COLUMN parent;
