-- Small texts that replicas share. The version is 1 for the first text under a name, and one
-- more for each that replaces it.

-- +goose Up
CREATE TABLE documents (
    name    text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL CHECK (version > 0),
    body    bytea NOT NULL
);

-- +goose Down
DROP TABLE documents;
