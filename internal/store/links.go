package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/toolyard/toolyard"
)

// SetLink notes that a caller has an account elsewhere, such as a wallet, by its address. An
// empty address removes the link.
func (s *Store) SetLink(ctx context.Context, caller, kind, address string) error {
	query, args := `INSERT INTO links (caller, kind, address) VALUES ($1, $2, $3)
		ON CONFLICT (caller, kind) DO UPDATE SET address = excluded.address`, []any{caller, kind, address}
	if address == "" {
		query, args = `DELETE FROM links WHERE caller = $1 AND kind = $2`, args[:2]
	}
	if _, err := s.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("store: link of %s: %w", caller, err)
	}
	return nil
}

// Linked is the address that a caller has linked as a kind, and "" for none.
func (s *Store) Linked(ctx context.Context, caller toolyard.Caller, kind string) (address string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT address FROM links WHERE caller = $1 AND kind = $2`, caller.ID, kind).Scan(&address)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("store: link of %s: %w", caller.ID, err)
	}
	return address, nil
}

// Links are all addresses that a caller has linked, by their kinds.
func (s *Store) Links(ctx context.Context, caller string) (links map[string]string, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT kind, address FROM links WHERE caller = $1`, caller)
	if err != nil {
		return nil, fmt.Errorf("store: links of %s: %w", caller, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	links = make(map[string]string)
	for rows.Next() {
		var kind, address string
		if err := rows.Scan(&kind, &address); err != nil {
			return nil, fmt.Errorf("store: links of %s: %w", caller, err)
		}
		links[kind] = address
	}
	return links, rows.Err()
}
