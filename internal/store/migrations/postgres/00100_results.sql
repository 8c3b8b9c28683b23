-- Long results, which their callers read in pieces. Pieces are cut in the database, so the text is
-- stored uncompressed.

-- +goose Up
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

-- +goose Down
DROP TABLE results;
