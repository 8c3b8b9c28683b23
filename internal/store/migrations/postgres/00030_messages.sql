-- Messages between replicas that are too large for a notification. The replica that a message is
-- for deletes it. Ended sessions are tokens, counted by their owners.

-- +goose Up
CREATE TABLE messages (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT now(),
    body text NOT NULL
);
CREATE INDEX consumed_owner ON consumed (owner, until);

-- +goose Down
DROP INDEX consumed_owner;
DROP TABLE messages;
