-- Ended sessions are tokens, counted by their owners.

-- +goose Up
CREATE INDEX consumed_owner ON consumed (owner, until);

-- +goose Down
DROP INDEX consumed_owner;
