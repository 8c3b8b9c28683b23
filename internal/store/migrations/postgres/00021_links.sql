-- Links belong to an account and a caller. A link of before belongs to the one account that keys of
-- its caller have, or without any key to the account of the caller's own name. When there are
-- several accounts nobody can say whose it is: its account is empty, and no caller reads it.

-- +goose Up
ALTER TABLE links ADD COLUMN account text COLLATE "C" NOT NULL DEFAULT '';
UPDATE links SET account = (
    SELECT CASE count(DISTINCT account) WHEN 0 THEN links.caller WHEN 1 THEN min(account) ELSE '' END
    FROM keys WHERE keys.caller = links.caller);
ALTER TABLE links DROP CONSTRAINT links_pkey;
ALTER TABLE links ADD PRIMARY KEY (account, caller, kind);
ALTER TABLE links ALTER COLUMN account DROP DEFAULT;

-- +goose Down
CREATE TABLE links_before (
    caller  text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    address text NOT NULL CHECK (address <> ''),
    PRIMARY KEY (caller, kind)
);
INSERT INTO links_before SELECT caller, kind, min(address) FROM links GROUP BY caller, kind HAVING count(*) = 1;
DROP TABLE links;
ALTER TABLE links_before RENAME TO links;
ALTER INDEX links_before_pkey RENAME TO links_pkey;
