-- People whom issuers have identified, and who of them is blocked. Times are in microseconds, and zero
-- for none.

-- +goose Up
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

-- +goose Down
DROP TABLE people;
