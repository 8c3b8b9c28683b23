-- Callers ask for the calls of their account, or of a session, the newest first.

-- +goose Up
CREATE INDEX calls_account ON calls (account, at, id);
CREATE INDEX calls_session ON calls (session, at, id) WHERE session <> '';

-- +goose Down
DROP INDEX calls_session;
DROP INDEX calls_account;
