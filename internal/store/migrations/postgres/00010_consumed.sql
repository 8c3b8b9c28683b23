-- Tokens that may be used once, by all replicas together, until they expire.

-- +goose Up
CREATE TABLE consumed (
    id    text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX consumed_until ON consumed (until);

-- +goose Down
DROP TABLE consumed;
