-- A key without scopes could write. Now that takes the scope write: keys that were made before say
-- so, and go on as they were.

-- +goose Up
UPDATE keys SET scopes = '["write"]' WHERE scopes IN ('null', '[]');

-- +goose Down
SELECT 1;
