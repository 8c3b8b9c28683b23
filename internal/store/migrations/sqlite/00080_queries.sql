-- Queries of agents, the whole texts of their evidence, and jobs, which run queries in the background.

-- +goose Up
CREATE TABLE queries (
    id      TEXT PRIMARY KEY,
    at      TIMESTAMP NOT NULL,
    agent   TEXT NOT NULL,
    account TEXT NOT NULL,
    caller  TEXT NOT NULL,
    outcome TEXT NOT NULL,
    model   INTEGER NOT NULL,
    tools   INTEGER NOT NULL,
    body    TEXT NOT NULL
);
CREATE INDEX queries_at ON queries (at, id);
CREATE INDEX queries_account ON queries (account, at, id);

CREATE TABLE evidence (
    query   TEXT NOT NULL,
    id      TEXT NOT NULL,
    account TEXT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (query, id)
);

CREATE TABLE query_jobs (
    id      TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    caller  TEXT NOT NULL,
    key     TEXT NOT NULL,
    digest  TEXT NOT NULL,
    at      TIMESTAMP NOT NULL,
    until   TIMESTAMP NOT NULL,
    ended   TIMESTAMP,
    state   TEXT NOT NULL,
    body    TEXT
);
CREATE UNIQUE INDEX query_jobs_key ON query_jobs (account, caller, key);
CREATE INDEX query_jobs_at ON query_jobs (at);

-- +goose Down
DROP TABLE query_jobs;
DROP TABLE evidence;
DROP TABLE queries;
