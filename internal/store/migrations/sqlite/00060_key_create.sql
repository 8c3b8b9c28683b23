-- Creating a key was audited as key.make.

-- +goose Up
UPDATE changes SET deed = 'key.create' WHERE deed = 'key.make';

-- +goose Down
UPDATE changes SET deed = 'key.make' WHERE deed = 'key.create';
