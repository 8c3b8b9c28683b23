-- The time that a caller asked a tool about, at gates with clock: caller.

-- +goose Up
ALTER TABLE calls ADD COLUMN as_of TIMESTAMP;

-- +goose Down
ALTER TABLE calls DROP COLUMN as_of;
