-- Tables and columns get the names that the API uses.

-- +goose Up
ALTER TABLE paces RENAME TO limits;
ALTER TABLE purses RENAME COLUMN balance TO available;
ALTER TABLE purses RENAME TO balances;
ALTER TABLE holds RENAME COLUMN purse TO balance;
ALTER TABLE transfers RENAME COLUMN purse TO balance;
ALTER TABLE retired RENAME COLUMN purse TO balance;
ALTER TABLE changes RENAME COLUMN deed TO action;
ALTER INDEX purses_expires RENAME TO balances_expires;
ALTER INDEX purses_left RENAME TO balances_left;
ALTER INDEX purses_account RENAME TO balances_account;
ALTER INDEX purses_accounts RENAME TO balances_accounts;
ALTER INDEX holds_purse RENAME TO holds_balance;
ALTER INDEX changes_deed RENAME TO changes_action;
UPDATE transfers SET
    source = regexp_replace(source, '^purse/', 'balance/'),
    target = regexp_replace(target, '^purse/', 'balance/')
WHERE source LIKE 'purse/%' OR target LIKE 'purse/%';

-- +goose Down
UPDATE transfers SET
    source = regexp_replace(source, '^balance/', 'purse/'),
    target = regexp_replace(target, '^balance/', 'purse/')
WHERE source LIKE 'balance/%' OR target LIKE 'balance/%';
ALTER INDEX changes_action RENAME TO changes_deed;
ALTER INDEX holds_balance RENAME TO holds_purse;
ALTER INDEX balances_accounts RENAME TO purses_accounts;
ALTER INDEX balances_account RENAME TO purses_account;
ALTER INDEX balances_left RENAME TO purses_left;
ALTER INDEX balances_expires RENAME TO purses_expires;
ALTER TABLE changes RENAME COLUMN action TO deed;
ALTER TABLE retired RENAME COLUMN balance TO purse;
ALTER TABLE transfers RENAME COLUMN balance TO purse;
ALTER TABLE holds RENAME COLUMN balance TO purse;
ALTER TABLE balances RENAME TO purses;
ALTER TABLE purses RENAME COLUMN available TO balance;
ALTER TABLE limits RENAME TO paces;
