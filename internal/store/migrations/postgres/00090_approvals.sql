-- Approvals of calls by operators, and the exceptions that operators remember.

-- +goose Up
CREATE TABLE approvals (
    id           text COLLATE "C" PRIMARY KEY,
    binding      text NOT NULL, -- digest of everything that the approval is bound to
    account      text NOT NULL,
    caller       text NOT NULL,
    gate         text NOT NULL,
    server       text NOT NULL,
    tool         text NOT NULL,
    definition   text NOT NULL, -- digest of the tool's definition
    arguments    text NOT NULL, -- digest of the gate, the tool and the arguments
    preview      text NOT NULL, -- the arguments without secrets
    hidden       bigint NOT NULL,
    cut          bigint NOT NULL,
    rule         text NOT NULL,
    rule_digest  text NOT NULL,
    message      text NOT NULL,
    price        bigint NOT NULL,
    call         text NOT NULL, -- that requested it
    state        text NOT NULL,
    created      timestamptz NOT NULL,
    expires      timestamptz NOT NULL,
    decided_by   text NOT NULL DEFAULT '',
    decided_at   timestamptz,
    reason       text NOT NULL DEFAULT '',
    used_call    text NOT NULL DEFAULT '',
    used_key     text NOT NULL DEFAULT '',
    used_at      timestamptz
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

-- +goose Down
DROP TABLE grants;
DROP TABLE approvals;
