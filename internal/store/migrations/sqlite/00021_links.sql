-- Links belong to an account and a caller. A link of before belongs to the one account that keys of
-- its caller have, or without any key to the account of the caller's own name. When there are
-- several accounts nobody can say whose it is: its account is empty, and no caller reads it.

-- +goose Up
CREATE TABLE links_after (
    account TEXT NOT NULL,
    caller  TEXT NOT NULL,
    kind    TEXT NOT NULL,
    address TEXT NOT NULL CHECK (address <> ''),
    PRIMARY KEY (account, caller, kind)
) WITHOUT ROWID;
INSERT INTO links_after (account, caller, kind, address)
    SELECT (
        SELECT CASE count(DISTINCT account) WHEN 0 THEN links.caller WHEN 1 THEN min(account) ELSE '' END
        FROM keys WHERE keys.caller = links.caller
    ), caller, kind, address FROM links;
DROP TABLE links;
ALTER TABLE links_after RENAME TO links;

-- +goose Down
CREATE TABLE links_before (
    caller  TEXT NOT NULL,
    kind    TEXT NOT NULL,
    address TEXT NOT NULL CHECK (address <> ''),
    PRIMARY KEY (caller, kind)
) WITHOUT ROWID;
INSERT INTO links_before SELECT caller, kind, min(address) FROM links GROUP BY caller, kind HAVING count(*) = 1;
DROP TABLE links;
ALTER TABLE links_before RENAME TO links;
