-- Approvals of calls by operators, and the exceptions that operators remember.

-- +goose Up
CREATE TABLE approvals (
    id           TEXT PRIMARY KEY NOT NULL,
    binding      TEXT NOT NULL, -- digest of everything that the approval is bound to
    account      TEXT NOT NULL,
    caller       TEXT NOT NULL,
    gate         TEXT NOT NULL,
    server       TEXT NOT NULL,
    tool         TEXT NOT NULL,
    definition   TEXT NOT NULL, -- digest of the tool's definition
    arguments    TEXT NOT NULL, -- digest of the gate, the tool and the arguments
    preview      TEXT NOT NULL, -- the arguments without secrets
    hidden       INTEGER NOT NULL,
    cut          INTEGER NOT NULL,
    rule         TEXT NOT NULL,
    rule_digest  TEXT NOT NULL,
    message      TEXT NOT NULL,
    price        INTEGER NOT NULL,
    call         TEXT NOT NULL, -- that requested it
    state        TEXT NOT NULL,
    created      TIMESTAMP NOT NULL,
    expires      TIMESTAMP NOT NULL,
    decided_by   TEXT NOT NULL DEFAULT '',
    decided_at   TIMESTAMP,
    reason       TEXT NOT NULL DEFAULT '',
    used_call    TEXT NOT NULL DEFAULT '',
    used_key     TEXT NOT NULL DEFAULT '',
    used_at      TIMESTAMP
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

-- +goose Down
DROP TABLE grants;
DROP TABLE approvals;
