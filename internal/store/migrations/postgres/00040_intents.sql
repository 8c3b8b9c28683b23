-- Write calls that are about to run, or whose outcome was never recorded.

-- +goose Up
CREATE TABLE intents (
    id    text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL,
    call  text NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX intents_until ON intents (until);

-- +goose Down
DROP TABLE intents;
