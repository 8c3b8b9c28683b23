-- Connections of people to MCP servers. Everything secret is sealed with a key that is not in the
-- database, and bound to its row.

-- +goose Up
CREATE TABLE connections (
    account     text NOT NULL,
    caller      text NOT NULL,
    server      text NOT NULL,
    state       text NOT NULL,
    issuer      text NOT NULL,
    scopes      text NOT NULL,
    sealed      text NOT NULL,
    version     bigint NOT NULL,
    lease_by    text NOT NULL DEFAULT '',
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    created     timestamptz NOT NULL,
    changed     timestamptz NOT NULL,
    PRIMARY KEY (account, caller, server)
);
CREATE INDEX connections_server ON connections (server, created);
CREATE TABLE connection_flows (
    id      text PRIMARY KEY,
    sealed  text NOT NULL,
    expires timestamptz NOT NULL
);
CREATE INDEX connection_flows_expires ON connection_flows (expires);
CREATE TABLE connection_clients (
    issuer   text NOT NULL,
    redirect text NOT NULL,
    sealed   text NOT NULL,
    PRIMARY KEY (issuer, redirect)
);

-- +goose Down
DROP TABLE connection_clients;
DROP TABLE connection_flows;
DROP TABLE connections;
