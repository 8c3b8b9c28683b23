-- Write calls that are about to run, or whose outcome was never recorded.

-- +goose Up
CREATE TABLE intents (
    id    TEXT PRIMARY KEY NOT NULL,
    until TIMESTAMP NOT NULL,
    call  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX intents_until ON intents (until);

-- +goose Down
DROP TABLE intents;
