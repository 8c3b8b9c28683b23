-- The schema. Its number is that of the last migration before the first release, so that stores of
-- earlier builds remain valid. Later changes are migrations of their own.
--
-- Amounts are billionths of a dollar. Names are compared byte by byte, so that all replicas lock rows
-- in the same order. Tables with frequent updates leave free space on their pages, so that rows are
-- updated in place.

-- State of rate limits, concurrency limits, cooldowns and spend limits.
CREATE TABLE limits (
    key   text COLLATE "C" PRIMARY KEY,
    state text
) WITH (fillfactor = 50);

-- Accounts and sessions. The balance of an account has the account's name as its ID.
CREATE TABLE balances (
    id         text COLLATE "C" PRIMARY KEY,
    account    text COLLATE "C" NOT NULL,
    state      text NOT NULL CHECK (state IN ('open', 'closed', 'expired')),
    cap        bigint NOT NULL CHECK (cap >= 0),
    available  bigint NOT NULL CHECK (available >= 0),
    held       bigint NOT NULL CHECK (held >= 0),
    spent      bigint NOT NULL CHECK (spent >= 0),
    calls      bigint NOT NULL CHECK (calls >= 0),
    held_calls bigint NOT NULL CHECK (held_calls >= 0),
    max_calls  bigint NOT NULL CHECK (max_calls >= 0),
    expires    timestamptz
) WITH (fillfactor = 50);
CREATE INDEX balances_expires ON balances (expires) WHERE state = 'open';
CREATE INDEX balances_left ON balances (id) WHERE state <> 'open' AND available > 0;
CREATE INDEX balances_account ON balances (account);
CREATE INDEX balances_accounts ON balances (id) WHERE id = account;
CREATE INDEX sessions_newest ON balances (expires, id) WHERE id <> account;
CREATE INDEX sessions_account ON balances (account, expires, id) WHERE id <> account;
CREATE INDEX sessions_state ON balances (state, expires, id) WHERE id <> account;

-- Parts of a balance that a replica has reserved for its calls.
CREATE TABLE holds (
    id            text COLLATE "C" PRIMARY KEY,
    balance       text COLLATE "C" NOT NULL REFERENCES balances (id),
    replica       text NOT NULL,
    serial        bigint NOT NULL,
    unspent       bigint NOT NULL CHECK (unspent >= 0),
    spent         bigint NOT NULL CHECK (spent >= 0),
    calls_unspent bigint NOT NULL CHECK (calls_unspent >= 0),
    calls_spent   bigint NOT NULL CHECK (calls_spent >= 0),
    expires       timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX holds_balance ON holds (balance);
CREATE INDEX holds_expires ON holds (expires);

-- Calls with an idempotency key, and their results.
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

-- Write calls that are about to run, or whose outcome was never recorded.
CREATE TABLE intents (
    id    text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL,
    call  text NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX intents_until ON intents (until);

CREATE TABLE transfers (
    id      text COLLATE "C" PRIMARY KEY,
    source  text NOT NULL,
    target  text NOT NULL,
    amount  bigint NOT NULL CHECK (amount >= 0),
    kind    text NOT NULL,
    balance text NOT NULL,
    at      timestamptz NOT NULL,
    CHECK (source <> target)
);
CREATE INDEX transfers_charges ON transfers (balance, at) WHERE kind = 'charge';

-- What each balance paid for calls that are no longer recorded.
CREATE TABLE retired (
    balance text PRIMARY KEY,
    amount  bigint NOT NULL
);

-- Recorded calls. Each day is a partition (see maintain), so that old days are dropped at once. Calls
-- that belong to no partition go to calls_default. The column was holds what the sums counted a call
-- as before it was found to be charged.
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
    parent       text,
    message      text,
    marks        text,
    was          text,
    as_of        timestamptz, -- the time that the caller asked about, at gates with clock: caller
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX calls_at ON calls (at);
CREATE INDEX calls_account ON calls (account, at, id);
CREATE INDEX calls_session ON calls (session, at, id) WHERE session <> '';
CREATE INDEX calls_server ON calls (server, at);
CREATE INDEX calls_tool ON calls (tool, at);
CREATE INDEX calls_gate ON calls (gate, at);
CREATE INDEX calls_caller ON calls (caller, at);
CREATE INDEX calls_failed ON calls (at, id) WHERE code <> 'OK';
CREATE INDEX calls_code ON calls (code, at, id) WHERE code <> 'OK';
CREATE INDEX calls_parent ON calls (parent, at, id) WHERE parent IS NOT NULL;
CREATE TABLE calls_default PARTITION OF calls DEFAULT;

-- Recent sums of calls. Each replica adds to rows of its own shard, so that replicas do not wait for
-- each other.
CREATE TABLE sums (
    account text COLLATE "C" NOT NULL,
    hour    timestamptz NOT NULL,
    server  text COLLATE "C" NOT NULL,
    tool    text COLLATE "C" NOT NULL,
    shard   bigint NOT NULL,
    calls   bigint NOT NULL,
    errors  bigint NOT NULL,
    charged bigint NOT NULL,
    usd     bigint NOT NULL,
    PRIMARY KEY (account, hour, server, tool, shard)
) WITH (fillfactor = 50);
CREATE INDEX sums_hour ON sums (hour);

-- Older sums (see gather), in nine grains: by account, by tool, or by both, for each hour, day and
-- week. Columns that a grain does not distinguish are empty. Each grain has its own partition, because
-- some have few rows and some very many.
CREATE TABLE totals (
    grain   text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    server  text COLLATE "C" NOT NULL,
    tool    text COLLATE "C" NOT NULL,
    calls   bigint NOT NULL,
    errors  bigint NOT NULL,
    charged bigint NOT NULL,
    usd     bigint NOT NULL,
    PRIMARY KEY (grain, account, at, server, tool)
) PARTITION BY LIST (grain);
CREATE INDEX totals_at ON totals (grain, at);
CREATE TABLE totals_account_hour PARTITION OF totals FOR VALUES IN ('account/hour');
CREATE TABLE totals_account_day PARTITION OF totals FOR VALUES IN ('account/day');
CREATE TABLE totals_account_week PARTITION OF totals FOR VALUES IN ('account/week');
CREATE TABLE totals_tool_hour PARTITION OF totals FOR VALUES IN ('tool/hour');
CREATE TABLE totals_tool_day PARTITION OF totals FOR VALUES IN ('tool/day');
CREATE TABLE totals_tool_week PARTITION OF totals FOR VALUES IN ('tool/week');
CREATE TABLE totals_both_hour PARTITION OF totals FOR VALUES IN ('both/hour');
CREATE TABLE totals_both_day PARTITION OF totals FOR VALUES IN ('both/day');
CREATE TABLE totals_both_week PARTITION OF totals FOR VALUES IN ('both/week');

-- Calls per minute, for the last days.
CREATE TABLE minutes (
    minute timestamptz NOT NULL,
    shard  bigint NOT NULL,
    calls  bigint NOT NULL,
    errors bigint NOT NULL,
    usd    bigint NOT NULL,
    PRIMARY KEY (minute, shard)
) WITH (fillfactor = 50);

-- API keys. Only the hash of the secret is stored. Times are microseconds since 1970; zero means none.
CREATE TABLE keys (
    prefix  text COLLATE "C" PRIMARY KEY,
    hash    bytea NOT NULL CHECK (length(hash) = 32),
    name    text NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    scopes  text NOT NULL,
    created bigint NOT NULL,
    expires bigint NOT NULL,
    revoked bigint NOT NULL
);
CREATE INDEX keys_newest ON keys (created, prefix);
CREATE INDEX keys_account ON keys (account, created, prefix);
CREATE INDEX keys_caller ON keys (caller, created, prefix);

-- Addresses of callers elsewhere, such as a wallet.
CREATE TABLE links (
    account text COLLATE "C" NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    address text NOT NULL CHECK (address <> ''),
    PRIMARY KEY (account, caller, kind)
);

-- People that issuers have identified. Times are microseconds since 1970; zero means none.
CREATE TABLE people (
    caller     text COLLATE "C" PRIMARY KEY,
    issuer     text NOT NULL,
    subject    text NOT NULL,
    name       text NOT NULL,
    email      text NOT NULL,
    groups     text NOT NULL, -- JSON
    first_seen bigint NOT NULL,
    seen       bigint NOT NULL,
    blocked    bigint NOT NULL,
    blocked_by text NOT NULL,
    reason     text NOT NULL
);
CREATE INDEX people_seen ON people (seen, caller);
CREATE INDEX people_blocked ON people (caller) WHERE blocked <> 0;

-- Connections of people to MCP servers. Secrets are sealed with a key that is not in the database, and
-- bound to their row.
CREATE TABLE connections (
    account     text NOT NULL,
    caller      text NOT NULL,
    server      text NOT NULL,
    state       text NOT NULL,
    issuer      text NOT NULL,
    scopes      text NOT NULL,
    sealed      text NOT NULL,
    version     bigint NOT NULL,
    lease_by    text NOT NULL DEFAULT '',
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    created     timestamptz NOT NULL,
    changed     timestamptz NOT NULL,
    PRIMARY KEY (account, caller, server)
);
CREATE INDEX connections_server ON connections (server, created);
CREATE TABLE connection_flows (
    id      text PRIMARY KEY,
    sealed  text NOT NULL,
    expires timestamptz NOT NULL
);
CREATE INDEX connection_flows_expires ON connection_flows (expires);
CREATE TABLE connection_clients (
    issuer   text NOT NULL,
    redirect text NOT NULL,
    sealed   text NOT NULL,
    PRIMARY KEY (issuer, redirect)
);

-- Single-use tokens and ended MCP sessions, shared by all replicas until they expire.
CREATE TABLE consumed (
    id    text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX consumed_until ON consumed (until);
CREATE INDEX consumed_owner ON consumed (owner, until);

-- Messages between replicas that are too large for a notification. The receiving replica deletes them.
CREATE TABLE messages (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT now(),
    body text NOT NULL
);

-- Small documents that replicas share, and their earlier versions. The first version is 1.
CREATE TABLE documents (
    name    text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL CHECK (version > 0),
    body    bytea NOT NULL
);
CREATE TABLE versions (
    name    text COLLATE "C" NOT NULL,
    version bigint NOT NULL CHECK (version > 0),
    at      timestamptz NOT NULL,
    author  text NOT NULL,
    note    text NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (name, version)
);

-- The audit log. The status is an HTTP status, or zero while the request runs.
CREATE TABLE changes (
    id      text COLLATE "C" PRIMARY KEY,
    at      timestamptz NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    action  text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    detail  text,
    status  bigint NOT NULL,
    remote  text NOT NULL
);
CREATE INDEX changes_at ON changes (at, id);
CREATE INDEX changes_caller ON changes (caller, at, id);
CREATE INDEX changes_action ON changes (action, at, id);
CREATE INDEX changes_subject ON changes (subject, at, id);

-- Append-only logs of packs. Entries are never deleted: a pack computes its state from all of them.
CREATE TABLE journal (
    stream text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    at     timestamptz NOT NULL,
    as_of  timestamptz NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    body   text,
    PRIMARY KEY (stream, seq)
);
CREATE INDEX journal_kind ON journal (stream, kind, seq);
CREATE INDEX journal_key ON journal (stream, key, seq) WHERE key <> '';
CREATE INDEX journal_as_of ON journal (stream, as_of, seq);

-- Agent queries, the full text of their evidence, and background jobs.
CREATE TABLE queries (
    id      text COLLATE "C" PRIMARY KEY,
    at      timestamptz NOT NULL,
    agent   text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    model   bigint NOT NULL,
    tools   bigint NOT NULL,
    body    text NOT NULL
);
CREATE INDEX queries_at ON queries (at, id);
CREATE INDEX queries_account ON queries (account, at, id);
CREATE TABLE evidence (
    query   text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    body    text NOT NULL,
    PRIMARY KEY (query, id)
);
CREATE TABLE query_jobs (
    id      text COLLATE "C" PRIMARY KEY,
    account text COLLATE "C" NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    digest  text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    until   timestamptz NOT NULL,
    ended   timestamptz,
    state   text COLLATE "C" NOT NULL,
    body    text
);
CREATE UNIQUE INDEX query_jobs_key ON query_jobs (account, caller, key);
CREATE INDEX query_jobs_at ON query_jobs (at);

-- Operators' approvals of calls, and their remembered exceptions.
CREATE TABLE approvals (
    id          text COLLATE "C" PRIMARY KEY,
    binding     text NOT NULL, -- digest of everything that the approval is bound to
    account     text NOT NULL,
    caller      text NOT NULL,
    gate        text NOT NULL,
    server      text NOT NULL,
    tool        text NOT NULL,
    definition  text NOT NULL, -- digest of the tool's definition
    arguments   text NOT NULL, -- digest of the gate, the tool and the arguments
    preview     text NOT NULL, -- the arguments without secrets
    hidden      bigint NOT NULL,
    cut         bigint NOT NULL,
    rule        text NOT NULL,
    rule_digest text NOT NULL,
    message     text NOT NULL,
    price       bigint NOT NULL,
    call        text NOT NULL, -- the call that requested it
    state       text NOT NULL,
    created     timestamptz NOT NULL,
    expires     timestamptz NOT NULL,
    decided_by  text NOT NULL DEFAULT '',
    decided_at  timestamptz,
    reason      text NOT NULL DEFAULT '',
    used_call   text NOT NULL DEFAULT '',
    used_key    text NOT NULL DEFAULT '',
    used_at     timestamptz
);
CREATE UNIQUE INDEX approvals_open ON approvals (binding) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_binding ON approvals (binding, created);
CREATE INDEX approvals_caller ON approvals (account, caller) WHERE state = 'pending';
CREATE INDEX approvals_list ON approvals (state, created, id);
CREATE TABLE grants (
    id          text COLLATE "C" PRIMARY KEY,
    account     text NOT NULL,
    caller      text NOT NULL,
    gate        text NOT NULL,
    server      text NOT NULL,
    tool        text NOT NULL,
    definition  text NOT NULL,
    arguments   text NOT NULL, -- digest; empty for any arguments
    rule        text NOT NULL,
    rule_digest text NOT NULL,
    price       bigint NOT NULL, -- the highest price
    created     timestamptz NOT NULL,
    expires     timestamptz NOT NULL,
    created_by  text NOT NULL
);
CREATE INDEX grants_call ON grants (account, caller, tool);

-- Long results, which callers read in parts. The database cuts the parts, so the body is stored
-- uncompressed.
CREATE TABLE results (
    id      text COLLATE "C" PRIMARY KEY,
    account text NOT NULL,
    caller  text NOT NULL,
    created timestamptz NOT NULL,
    expires timestamptz NOT NULL,
    size    bigint NOT NULL,
    body    bytea NOT NULL
);
ALTER TABLE results ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX results_owner ON results (account, caller, created);
CREATE INDEX results_expires ON results (expires);
