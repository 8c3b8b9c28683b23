-- Times are microseconds since 1970, zero for none. Of a key's secret only the hash is here.

-- +goose Up
CREATE TABLE keys (
    prefix  text COLLATE "C" PRIMARY KEY,
    hash    bytea NOT NULL CHECK (length(hash) = 32),
    name    text NOT NULL,
    caller  text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    scopes  text NOT NULL,
    created bigint NOT NULL,
    expires bigint NOT NULL,
    revoked bigint NOT NULL
);

CREATE TABLE links (
    caller  text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    address text NOT NULL CHECK (address <> ''),
    PRIMARY KEY (caller, kind)
);

-- +goose Down
DROP TABLE links;
DROP TABLE keys;
