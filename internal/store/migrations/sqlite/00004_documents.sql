-- Small texts that replicas share. The version is 1 for the first text under a name, and one
-- more for each that replaces it.

-- +goose Up
CREATE TABLE documents (
    name    TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    body    BLOB NOT NULL
);

-- +goose Down
DROP TABLE documents;
