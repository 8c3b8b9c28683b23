-- Tables and columns get the names that the API uses. SQLite cannot rename an index.

-- +goose Up
DROP INDEX purses_expires;
DROP INDEX purses_left;
DROP INDEX purses_account;
DROP INDEX purses_accounts;
DROP INDEX holds_purse;
ALTER TABLE paces RENAME TO limits;
ALTER TABLE purses RENAME COLUMN balance TO available;
ALTER TABLE purses RENAME TO balances;
ALTER TABLE holds RENAME COLUMN purse TO balance;
ALTER TABLE transfers RENAME COLUMN purse TO balance;
ALTER TABLE retired RENAME COLUMN purse TO balance;
ALTER TABLE changes RENAME COLUMN deed TO action;
CREATE INDEX balances_expires ON balances (expires) WHERE state = 'open';
CREATE INDEX balances_left ON balances (id) WHERE state <> 'open' AND available > 0;
CREATE INDEX balances_account ON balances (account);
CREATE INDEX balances_accounts ON balances (id) WHERE id = account;
CREATE INDEX holds_balance ON holds (balance, expires);
UPDATE transfers SET source = 'balance/' || substr(source, 7) WHERE source LIKE 'purse/%';
UPDATE transfers SET target = 'balance/' || substr(target, 7) WHERE target LIKE 'purse/%';

-- +goose Down
UPDATE transfers SET target = 'purse/' || substr(target, 9) WHERE target LIKE 'balance/%';
UPDATE transfers SET source = 'purse/' || substr(source, 9) WHERE source LIKE 'balance/%';
DROP INDEX holds_balance;
DROP INDEX balances_accounts;
DROP INDEX balances_account;
DROP INDEX balances_left;
DROP INDEX balances_expires;
ALTER TABLE changes RENAME COLUMN action TO deed;
ALTER TABLE retired RENAME COLUMN balance TO purse;
ALTER TABLE transfers RENAME COLUMN balance TO purse;
ALTER TABLE holds RENAME COLUMN balance TO purse;
ALTER TABLE balances RENAME TO purses;
ALTER TABLE purses RENAME COLUMN available TO balance;
ALTER TABLE limits RENAME TO paces;
CREATE INDEX purses_expires ON purses (expires) WHERE state = 'open';
CREATE INDEX purses_left ON purses (id) WHERE state <> 'open' AND balance > 0;
CREATE INDEX purses_account ON purses (account);
CREATE INDEX purses_accounts ON purses (id) WHERE id = account;
CREATE INDEX holds_purse ON holds (purse, expires);
