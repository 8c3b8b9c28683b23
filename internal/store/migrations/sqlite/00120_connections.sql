-- Connections of people to MCP servers. Everything secret is sealed with a key that is not in the
-- database, and bound to its row.

-- +goose Up
CREATE TABLE connections (
    account     TEXT NOT NULL,
    caller      TEXT NOT NULL,
    server      TEXT NOT NULL,
    state       TEXT NOT NULL,
    issuer      TEXT NOT NULL,
    scopes      TEXT NOT NULL,
    sealed      TEXT NOT NULL,
    version     INTEGER NOT NULL,
    lease_by    TEXT NOT NULL DEFAULT '',
    lease_until TIMESTAMP NOT NULL DEFAULT '0001-01-01 00:00:00+00:00',
    created     TIMESTAMP NOT NULL,
    changed     TIMESTAMP NOT NULL,
    PRIMARY KEY (account, caller, server)
);
CREATE INDEX connections_server ON connections (server, created);
CREATE TABLE connection_flows (
    id      TEXT PRIMARY KEY NOT NULL,
    sealed  TEXT NOT NULL,
    expires TIMESTAMP NOT NULL
);
CREATE INDEX connection_flows_expires ON connection_flows (expires);
CREATE TABLE connection_clients (
    issuer   TEXT NOT NULL,
    redirect TEXT NOT NULL,
    sealed   TEXT NOT NULL,
    PRIMARY KEY (issuer, redirect)
);

-- +goose Down
DROP TABLE connection_clients;
DROP TABLE connection_flows;
DROP TABLE connections;
