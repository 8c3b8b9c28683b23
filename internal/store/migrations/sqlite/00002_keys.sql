-- Times are microseconds since 1970, zero for none. Of a key's secret only the hash is here.

-- +goose Up
CREATE TABLE keys (
    prefix  TEXT PRIMARY KEY NOT NULL,
    hash    BLOB NOT NULL CHECK (length(hash) = 32),
    name    TEXT NOT NULL,
    caller  TEXT NOT NULL,
    account TEXT NOT NULL,
    scopes  TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    revoked INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE links (
    caller  TEXT NOT NULL,
    kind    TEXT NOT NULL,
    address TEXT NOT NULL CHECK (address <> ''),
    PRIMARY KEY (caller, kind)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE links;
DROP TABLE keys;
