-- When links and connections were last used by a call of their owner, in microseconds since 1970.

ALTER TABLE links ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE connections ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
UPDATE links SET used = unixepoch() * 1000000;
UPDATE connections SET used = unixepoch() * 1000000;
