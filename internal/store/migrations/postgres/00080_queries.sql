-- Queries of agents, the whole texts of their evidence, and jobs, which run queries in the background.

-- +goose Up
CREATE TABLE queries (
    id      text COLLATE "C" PRIMARY KEY,
    at      timestamptz NOT NULL,
    agent   text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    model   bigint NOT NULL,
    tools   bigint NOT NULL,
    body    text NOT NULL
);
CREATE INDEX queries_at ON queries (at, id);
CREATE INDEX queries_account ON queries (account, at, id);

CREATE TABLE evidence (
    query   text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    body    text NOT NULL,
    PRIMARY KEY (query, id)
);

CREATE TABLE query_jobs (
    id      text COLLATE "C" PRIMARY KEY,
    account text COLLATE "C" NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    digest  text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    until   timestamptz NOT NULL,
    ended   timestamptz,
    state   text COLLATE "C" NOT NULL,
    body    text
);
CREATE UNIQUE INDEX query_jobs_key ON query_jobs (account, caller, key);
CREATE INDEX query_jobs_at ON query_jobs (at);

-- +goose Down
DROP TABLE query_jobs;
DROP TABLE evidence;
DROP TABLE queries;
