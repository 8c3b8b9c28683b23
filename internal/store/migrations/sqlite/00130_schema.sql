-- The schema. Its number is that of the last migration before the first release, so that stores of
-- earlier builds remain valid. Later changes are migrations of their own.
--
-- Amounts are billionths of a dollar. A TIMESTAMP is an integer, in microseconds; the driver converts
-- it.

-- State of rate limits, concurrency limits, cooldowns and spend limits.
CREATE TABLE limits (
    key   TEXT PRIMARY KEY NOT NULL,
    state TEXT
) WITHOUT ROWID;

-- Accounts and sessions. The balance of an account has the account's name as its ID.
CREATE TABLE balances (
    id         TEXT PRIMARY KEY NOT NULL,
    account    TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('open', 'closed', 'expired')),
    cap        INTEGER NOT NULL CHECK (cap >= 0),
    available  INTEGER NOT NULL CHECK (available >= 0),
    held       INTEGER NOT NULL CHECK (held >= 0),
    spent      INTEGER NOT NULL CHECK (spent >= 0),
    calls      INTEGER NOT NULL CHECK (calls >= 0),
    held_calls INTEGER NOT NULL CHECK (held_calls >= 0),
    max_calls  INTEGER NOT NULL CHECK (max_calls >= 0),
    expires    TIMESTAMP
) WITHOUT ROWID;
CREATE INDEX balances_expires ON balances (expires) WHERE state = 'open';
CREATE INDEX balances_left ON balances (id) WHERE state <> 'open' AND available > 0;
CREATE INDEX balances_account ON balances (account);
CREATE INDEX balances_accounts ON balances (id) WHERE id = account;
CREATE INDEX sessions_newest ON balances (expires, id) WHERE id <> account;
CREATE INDEX sessions_account ON balances (account, expires, id) WHERE id <> account;
CREATE INDEX sessions_state ON balances (state, expires, id) WHERE id <> account;

-- Parts of a balance that a replica has reserved for its calls.
CREATE TABLE holds (
    id            TEXT PRIMARY KEY NOT NULL,
    balance       TEXT NOT NULL REFERENCES balances (id),
    replica       TEXT NOT NULL,
    serial        INTEGER NOT NULL,
    unspent       INTEGER NOT NULL CHECK (unspent >= 0),
    spent         INTEGER NOT NULL CHECK (spent >= 0),
    calls_unspent INTEGER NOT NULL CHECK (calls_unspent >= 0),
    calls_spent   INTEGER NOT NULL CHECK (calls_spent >= 0),
    expires       TIMESTAMP NOT NULL
) WITHOUT ROWID;
CREATE INDEX holds_balance ON holds (balance, expires);
CREATE INDEX holds_expires ON holds (expires);

-- Calls with an idempotency key, and their results.
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

-- Write calls that are about to run, or whose outcome was never recorded.
CREATE TABLE intents (
    id    TEXT PRIMARY KEY NOT NULL,
    until TIMESTAMP NOT NULL,
    call  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX intents_until ON intents (until);

CREATE TABLE transfers (
    id      TEXT PRIMARY KEY NOT NULL,
    source  TEXT NOT NULL,
    target  TEXT NOT NULL,
    amount  INTEGER NOT NULL CHECK (amount >= 0),
    kind    TEXT NOT NULL,
    balance TEXT NOT NULL,
    at      TIMESTAMP NOT NULL,
    CHECK (source <> target)
) WITHOUT ROWID;
CREATE INDEX transfers_charges ON transfers (balance, at) WHERE kind = 'charge';

-- What each balance paid for calls that are no longer recorded.
CREATE TABLE retired (
    balance TEXT PRIMARY KEY NOT NULL,
    amount  INTEGER NOT NULL
);

-- Recorded calls. Every call pays for every index, so there are few. IDs sort by time, so calls_id grows
-- at its end, which costs little; the other indexes have few rows.
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
    parent       TEXT,
    message      TEXT,
    marks        TEXT,
    as_of        TIMESTAMP, -- the time that the caller asked about, at gates with clock: caller
    PRIMARY KEY (at, id)
) WITHOUT ROWID;
CREATE INDEX calls_id ON calls (id);
CREATE INDEX calls_failed ON calls (at, id) WHERE code <> 'OK';
CREATE INDEX calls_parent ON calls (parent, at, id) WHERE parent IS NOT NULL;

-- Recent sums of calls. There is one writer at a time, so the shard is always zero.
CREATE TABLE sums (
    account TEXT NOT NULL,
    hour    TIMESTAMP NOT NULL,
    server  TEXT NOT NULL,
    tool    TEXT NOT NULL,
    shard   INTEGER NOT NULL,
    calls   INTEGER NOT NULL,
    errors  INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    usd     INTEGER NOT NULL,
    PRIMARY KEY (account, hour, server, tool, shard)
) WITHOUT ROWID;
CREATE INDEX sums_hour ON sums (hour);

-- Older sums (see gather), in nine grains: by account, by tool, or by both, for each hour, day and
-- week. Columns that a grain does not distinguish are empty.
CREATE TABLE totals (
    grain   TEXT NOT NULL,
    account TEXT NOT NULL,
    at      TIMESTAMP NOT NULL,
    server  TEXT NOT NULL,
    tool    TEXT NOT NULL,
    calls   INTEGER NOT NULL,
    errors  INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    usd     INTEGER NOT NULL,
    PRIMARY KEY (grain, account, at, server, tool)
) WITHOUT ROWID;
CREATE INDEX totals_at ON totals (grain, at);

-- Calls per minute, for the last days.
CREATE TABLE minutes (
    minute TIMESTAMP NOT NULL,
    shard  INTEGER NOT NULL,
    calls  INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    usd    INTEGER NOT NULL,
    PRIMARY KEY (minute, shard)
) WITHOUT ROWID;

-- API keys. Only the hash of the secret is stored. Times are microseconds since 1970; zero means none.
CREATE TABLE keys (
    prefix  TEXT PRIMARY KEY NOT NULL,
    hash    BLOB NOT NULL CHECK (length(hash) = 32),
    name    TEXT NOT NULL,
    caller  TEXT NOT NULL,
    account TEXT NOT NULL,
    scopes  TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    revoked INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX keys_newest ON keys (created, prefix);
CREATE INDEX keys_account ON keys (account, created, prefix);
CREATE INDEX keys_caller ON keys (caller, created, prefix);

-- Addresses of callers elsewhere, such as a wallet.
CREATE TABLE links (
    account TEXT NOT NULL,
    caller  TEXT NOT NULL,
    kind    TEXT NOT NULL,
    address TEXT NOT NULL CHECK (address <> ''),
    PRIMARY KEY (account, caller, kind)
) WITHOUT ROWID;

-- People that issuers have identified. Times are microseconds since 1970; zero means none.
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

-- Connections of people to MCP servers. Secrets are sealed with a key that is not in the database, and
-- bound to their row.
CREATE TABLE connections (
    account     TEXT NOT NULL,
    caller      TEXT NOT NULL,
    server      TEXT NOT NULL,
    state       TEXT NOT NULL,
    issuer      TEXT NOT NULL,
    scopes      TEXT NOT NULL,
    sealed      TEXT NOT NULL,
    version     INTEGER NOT NULL,
    lease_by    TEXT NOT NULL DEFAULT '',
    lease_until TIMESTAMP NOT NULL DEFAULT '0001-01-01 00:00:00+00:00',
    created     TIMESTAMP NOT NULL,
    changed     TIMESTAMP NOT NULL,
    PRIMARY KEY (account, caller, server)
);
CREATE INDEX connections_server ON connections (server, created);
CREATE TABLE connection_flows (
    id      TEXT PRIMARY KEY NOT NULL,
    sealed  TEXT NOT NULL,
    expires TIMESTAMP NOT NULL
);
CREATE INDEX connection_flows_expires ON connection_flows (expires);
CREATE TABLE connection_clients (
    issuer   TEXT NOT NULL,
    redirect TEXT NOT NULL,
    sealed   TEXT NOT NULL,
    PRIMARY KEY (issuer, redirect)
);

-- Single-use tokens and ended MCP sessions, until they expire.
CREATE TABLE consumed (
    id    TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    until TIMESTAMP NOT NULL
) WITHOUT ROWID;
CREATE INDEX consumed_until ON consumed (until);
CREATE INDEX consumed_owner ON consumed (owner, until);

-- Small documents that replicas share, and their earlier versions. The first version is 1.
CREATE TABLE documents (
    name    TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    body    BLOB NOT NULL
);
CREATE TABLE versions (
    name    TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    at      TIMESTAMP NOT NULL,
    author  TEXT NOT NULL,
    note    TEXT NOT NULL,
    body    BLOB NOT NULL,
    PRIMARY KEY (name, version)
);

-- The audit log. The status is an HTTP status, or zero while the request runs.
CREATE TABLE changes (
    id      TEXT PRIMARY KEY NOT NULL,
    at      TIMESTAMP NOT NULL,
    caller  TEXT NOT NULL,
    account TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT,
    status  INTEGER NOT NULL,
    remote  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX changes_at ON changes (at, id);

-- Append-only logs of packs. Entries are never deleted: a pack computes its state from all of them.
CREATE TABLE journal (
    stream TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    at     TIMESTAMP NOT NULL,
    as_of  TIMESTAMP NOT NULL,
    kind   TEXT NOT NULL,
    key    TEXT NOT NULL,
    body   TEXT,
    PRIMARY KEY (stream, seq)
);
CREATE INDEX journal_kind ON journal (stream, kind, seq);
CREATE INDEX journal_key ON journal (stream, key, seq) WHERE key <> '';
CREATE INDEX journal_as_of ON journal (stream, as_of, seq);

-- Agent queries, the full text of their evidence, and background jobs.
CREATE TABLE queries (
    id      TEXT PRIMARY KEY,
    at      TIMESTAMP NOT NULL,
    agent   TEXT NOT NULL,
    account TEXT NOT NULL,
    caller  TEXT NOT NULL,
    outcome TEXT NOT NULL,
    model   INTEGER NOT NULL,
    tools   INTEGER NOT NULL,
    body    TEXT NOT NULL
);
CREATE INDEX queries_at ON queries (at, id);
CREATE INDEX queries_account ON queries (account, at, id);
CREATE TABLE evidence (
    query   TEXT NOT NULL,
    id      TEXT NOT NULL,
    account TEXT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (query, id)
);
CREATE TABLE query_jobs (
    id      TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    caller  TEXT NOT NULL,
    key     TEXT NOT NULL,
    digest  TEXT NOT NULL,
    at      TIMESTAMP NOT NULL,
    until   TIMESTAMP NOT NULL,
    ended   TIMESTAMP,
    state   TEXT NOT NULL,
    body    TEXT
);
CREATE UNIQUE INDEX query_jobs_key ON query_jobs (account, caller, key);
CREATE INDEX query_jobs_at ON query_jobs (at);

-- Operators' approvals of calls, and their remembered exceptions.
CREATE TABLE approvals (
    id          TEXT PRIMARY KEY NOT NULL,
    binding     TEXT NOT NULL, -- digest of everything that the approval is bound to
    account     TEXT NOT NULL,
    caller      TEXT NOT NULL,
    gate        TEXT NOT NULL,
    server      TEXT NOT NULL,
    tool        TEXT NOT NULL,
    definition  TEXT NOT NULL, -- digest of the tool's definition
    arguments   TEXT NOT NULL, -- digest of the gate, the tool and the arguments
    preview     TEXT NOT NULL, -- the arguments without secrets
    hidden      INTEGER NOT NULL,
    cut         INTEGER NOT NULL,
    rule        TEXT NOT NULL,
    rule_digest TEXT NOT NULL,
    message     TEXT NOT NULL,
    price       INTEGER NOT NULL,
    call        TEXT NOT NULL, -- the call that requested it
    state       TEXT NOT NULL,
    created     TIMESTAMP NOT NULL,
    expires     TIMESTAMP NOT NULL,
    decided_by  TEXT NOT NULL DEFAULT '',
    decided_at  TIMESTAMP,
    reason      TEXT NOT NULL DEFAULT '',
    used_call   TEXT NOT NULL DEFAULT '',
    used_key    TEXT NOT NULL DEFAULT '',
    used_at     TIMESTAMP
) WITHOUT ROWID;
CREATE UNIQUE INDEX approvals_open ON approvals (binding) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_binding ON approvals (binding, created);
CREATE INDEX approvals_caller ON approvals (account, caller) WHERE state = 'pending';
CREATE INDEX approvals_list ON approvals (state, created, id);
CREATE TABLE grants (
    id          TEXT PRIMARY KEY NOT NULL,
    account     TEXT NOT NULL,
    caller      TEXT NOT NULL,
    gate        TEXT NOT NULL,
    server      TEXT NOT NULL,
    tool        TEXT NOT NULL,
    definition  TEXT NOT NULL,
    arguments   TEXT NOT NULL, -- digest; empty for any arguments
    rule        TEXT NOT NULL,
    rule_digest TEXT NOT NULL,
    price       INTEGER NOT NULL, -- the highest price
    created     TIMESTAMP NOT NULL,
    expires     TIMESTAMP NOT NULL,
    created_by  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX grants_call ON grants (account, caller, tool);

-- Long results, which callers read in parts.
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
