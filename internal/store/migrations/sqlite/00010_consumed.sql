-- Tokens that may be used once, by all processes together, until they expire.

-- +goose Up
CREATE TABLE consumed (
    id    TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    until TIMESTAMP NOT NULL
) WITHOUT ROWID;
CREATE INDEX consumed_until ON consumed (until);

-- +goose Down
DROP TABLE consumed;
